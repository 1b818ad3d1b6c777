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
from pathlib import Path
from typing import Any

import polars as pl

from recprism.common.files import atomic_path
from recprism.errors import InputError
from recprism.operate.traffic.certificate import answer, questions_of
from recprism.operate.traffic.clusters import read_clusters
from recprism.operate.traffic.governor_plan import GovernorPlan
from recprism.operate.traffic.steps import together

PROBLEM = "problem"
CLOSED = "closed"
"""The folder, in that of the log, with the clusters of days that cannot change."""
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

    Raises:
        InputError: If a file is missing or damaged, or nothing was drawn.
    """
    plan = asked.plan
    questions = questions_of(plan.budgets, "budgets")
    table, notes = _clusters(asked, list(dict.fromkeys(it.outcome for it in questions)))
    alpha = (1 - plan.confidence) / (len(questions) * (len(plan.prices) - 1))
    answers, evidence = list[str](), list[dict[str, Any]]()
    for at, price in enumerate(plan.prices[1:], 1):
        arm = pl.when(pl.col("place") == at).then(1.0).when(pl.col("place") == 0).then(-1.0).otherwise(0.0)
        found = [answer(table, it, alpha, arm, plan.share) for it in questions]
        answers.append(together([it.answer for it in found]))
        evidence += [{"price": price, **asdict(it), "sentence": it.sentence()} for it in found]
    return Judgement(answers, evidence, notes)


def _clusters(asked: Question, names: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """Return the clusters since the evidence began. Days that cannot change are kept, and not read again."""
    plan, since = asked.plan, datetime.fromtimestamp(asked.since, UTC)
    folder = Path(asked.log) / CLOSED / f"{asked.key}-{since:%Y%m%dT%H%M%S}"
    days = {date.fromisoformat(it.stem): it for it in sorted(folder.glob("*.arrow"))}
    if days:
        since = datetime.combine(max(days), datetime.min.time(), UTC) + timedelta(days=1)
    read = read_clusters(asked.log, plan.outcomes, names, plan.window, asked.export, since)
    new = read.table.filter(pl.col("place").is_not_null())
    table = pl.concat([*map(pl.read_ipc, days.values()), new], how="diagonal")
    if read.final is not None:
        ended = (read.final - timedelta(days=1 + plan.window)).date()
        folder.mkdir(parents=True, exist_ok=True)
        for (day,), rows in new.filter(pl.col("day") <= ended).group_by("day", maintain_order=True):
            with atomic_path(folder / f"{day}.arrow") as temporary:
                rows.write_ipc(temporary, compression="zstd")
    return table, list(read.notes)


class JudgeApart:
    """Judges in a process of its own, so that a step takes no processor and no memory from requests."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, asked: Question) -> Judgement:
        words, few = [sys.executable, "-m", __name__], os.environ | {"POLARS_MAX_THREADS": "1"}
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=few) as process:
            self._process = process
            said, _ = process.communicate(json.dumps(asdict(asked)))
        if process.returncode:
            raise RuntimeError(f"the process that reads the log ended with {process.returncode}")
        found = json.loads(said)
        if PROBLEM in found:
            raise InputError(found[PROBLEM])
        return Judgement(**found)

    def end(self) -> None:
        """End the process, if one reads the log."""
        if self._process is not None:
            self._process.kill()


def main() -> None:
    """Answer the question on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches all processes of a service, which ends this one
    with contextlib.suppress(AttributeError):  # Windows has no such priority
        os.nice(NICENESS)
    said = json.load(sys.stdin)
    try:
        found = asdict(judge(Question(**{**said, "plan": GovernorPlan(**said["plan"])})))
    except InputError as problem:
        found = {PROBLEM: str(problem)}
    with contextlib.suppress(BrokenPipeError):  # the service was killed
        sys.stdout.write(json.dumps(found))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
