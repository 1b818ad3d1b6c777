"""What a log says about each price of a governor, in this process or in one of its own.

``python -m recprism.operate.traffic.judgement`` reads a question as JSON, and writes its judgement.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Any, Self

import polars as pl

from recprism.common.files import atomic_path, readable
from recprism.errors import RecprismError
from recprism.operate.traffic.certificate import answer, questions_of
from recprism.operate.traffic.clusters import DAY, read_clusters
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.operate.traffic.steps import together

PROBLEM = "problem"
CLOSED = "closed"
"""The folder, in that of the log, with the clusters of days that are over."""
DIGITS = 5  # of the number of a day
NICENESS = 10  # requests come first, where processors are busy


@dataclass(frozen=True)
class Question:
    """What a governor asks at each step.

    Attributes:
        plan: Its plan.
        log: The folder of the log of served requests.
        export: Fingerprint of the export that is served.
        since: When the evidence begins, in seconds since 1970.
        key: What must stay the same for evidence to add up.
    """

    plan: GovernorPlan
    log: str
    export: str
    since: float
    key: str


@dataclass(frozen=True)
class Judgement:
    """What the log says.

    Attributes:
        answers: For each price but the first: "certified", "undecided" or "broken", for all budgets together.
        evidence: The answer about each price and budget, as plain values.
        notes: What was left out, what waits, and what counts as 0.
    """

    answers: list[str]
    evidence: list[dict[str, Any]]
    notes: list[str]


Judge = Callable[[Question], Judgement]


def judge(asked: Question) -> Judgement:
    """Read the log and the outcomes, and test each price against the first one.

    Days that are over are kept, and not read again.

    Raises:
        InputError: If a file is missing or damaged, or nothing was drawn.
    """
    plan, days = asked.plan, ClosedDays.of(asked)
    questions = questions_of(plan.budgets, "budgets")
    names = list(dict.fromkeys(it.outcome for it in questions))
    read = read_clusters(asked.log, plan.outcomes, names, plan.window, asked.export, days.until)
    new = read.table.filter(pl.col("place").is_not_null())
    table = days.before(new)
    alpha = (1 - plan.confidence) / (len(questions) * (len(plan.prices) - 1))
    answers, evidence = list[str](), list[dict[str, Any]]()
    for at, price in enumerate(plan.prices[1:], 1):
        arm = pl.when(pl.col("place") == at).then(1.0).when(pl.col("place") == 0).then(-1.0).otherwise(0.0)
        found = [answer(table, it, alpha, arm, plan.share) for it in questions]
        answers.append(together([it.answer for it in found]))
        evidence += [{"price": price, **asdict(it), "sentence": it.sentence()} for it in found]
    if read.final is not None:
        days.keep(new, read.final - timedelta(days=plan.window))
    return Judgement(answers, evidence, list(read.notes))


@dataclass(frozen=True)
class ClosedDays:
    """The clusters of days that are over, one file a day. Files behind a missing one do not count.

    Attributes:
        folder: Where they are.
        files: Day -> its file.
        until: The first moment whose requests are read from the log.
    """

    folder: Path
    files: dict[date, Path]
    until: datetime

    @classmethod
    def of(cls, asked: Question) -> Self:
        """Find those of the evidence that is asked about."""
        since = datetime.fromtimestamp(asked.since, UTC)
        folder = Path(asked.log) / CLOSED / f"{asked.key}-{since:%Y%m%dT%H%M%S}"
        whole = takewhile(lambda it: int(it[1].stem[:DIGITS]) == it[0], enumerate(sorted(folder.glob("*.arrow"))))
        files = {date.fromisoformat(it.stem[DIGITS + 1 :]): it for _, it in whole}
        return cls(folder, files, _start(max(files)) + DAY if files else since)

    def before(self, new: pl.DataFrame) -> pl.DataFrame:
        """Return all clusters: the kept ones, and then the new ones."""
        parts = []
        for file in self.files.values():
            with readable(file, "damaged", "delete it"):
                parts.append(pl.read_ipc(file))
        return pl.concat([*parts, new], how="diagonal")

    def keep(self, new: pl.DataFrame, closed: datetime) -> None:
        """Keep the days whose clusters had all closed a day before some moment: outcomes may come a little late."""
        for number, ((day,), rows) in enumerate(new.group_by("day", maintain_order=True), len(self.files)):
            if _start(day) + 2 * DAY <= closed:
                self.folder.mkdir(parents=True, exist_ok=True)
                with atomic_path(self.folder / f"{number:0{DIGITS}}-{day}.arrow") as temporary:
                    rows.write_ipc(temporary, compression="zstd")


def _start(day: Any) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC)


class JudgeApart:
    """Judges in a process of its own, behind requests where processors are busy; its memory ends with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock, self._ended = Lock(), False

    def __call__(self, asked: Question) -> Judgement:
        words, few = [sys.executable, "-P", "-m", __name__], os.environ | {"POLARS_MAX_THREADS": "1"}
        with self._lock:
            if self._ended:
                raise RecprismError("the service ends")
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=few)
            self._process = process
        with process:
            said, _ = process.communicate(json.dumps(asdict(asked)))
        if process.returncode:
            raise RecprismError(f"the process that reads the log ended with {process.returncode}")
        found = json.loads(said)
        if PROBLEM in found:
            raise RecprismError(found[PROBLEM])
        return Judgement(**found)

    def end(self) -> None:
        """End the process, if one reads the log, and start no other one."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()


def main() -> None:
    """Answer the question on stdin."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach all processes of a service, which ends this one
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(AttributeError):  # Windows has no such priority
        os.nice(NICENESS)
    said = json.load(sys.stdin)
    try:
        found = asdict(judge(Question(**{**said, "plan": GovernorPlan(**said["plan"])})))
    except Exception as problem:  # the governor shows it
        found = {PROBLEM: str(problem) or type(problem).__name__}
    with contextlib.suppress(BrokenPipeError):  # the service was killed
        sys.stdout.write(json.dumps(found))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
