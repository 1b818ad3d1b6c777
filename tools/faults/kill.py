"""Commands that are killed at random moments: nothing half-written under its final name, and a resume to the same bits.

python tools/faults/kill.py --kills 200

Each trial copies a prepared run, starts a command on it and kills it with SIGKILL: every other one after a random share
of the time that the command takes, the others at a random moment of a phase, each phase in turn. It then opens the run
as a reader does. The run must be the old one byte for byte, or the new one, and nothing in between. Then it goes on as
the command line says, and compares what came out with a run that was not disturbed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commands import finish, has_stopped, phases, start

MODEL = ("--device", "cpu", "--set", "epochs=6", "--set", "dim=8", "--min-user", "1", "--min-item", "1")
ITEMS = ("--items", "ITEMS", "--category-column", "kind")
BUDGET = ("--budget", "0.3", "--goal", "subtopic_coverage")
TRAINED = ("factors.safetensors", "factors.json", "split.parquet", "items.parquet", "categories.parquet")
FOUND = ("delta.safetensors", "cmb.json")
CACHES = ("path.subtopic_coverage.safetensors", "audit.json")  # whole on their own, for later commands


@dataclass(frozen=True)
class Job:
    """prepared: what it is started on; start: what is killed; again: how to go on once it has noted what is asked.

    made: files that must come out the same, and "stdout"; kept: what was finished before and must stay as it was;
    apart: files that are whole on their own and may be new while others are old; stage: the folder of interrupted work
    """

    name: str
    prepared: str
    start: tuple[str, ...]
    again: tuple[str, ...]
    made: tuple[str, ...]
    kept: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    stage: str = ""


TRAIN = ("train", "-o", "RUN", "--data", "DATA", *ITEMS, *MODEL)
FRONTIER = ("frontier", "RUN", "--rivals", "mmr,xquad", "--json")
REPORT = ("report", "RUN", "--draws", "0")
EXPLAIN = ("explain", "RUN", "--draws", "40")
ERASE = ("erase", "RUN", "--draws", "2", "--controls", "40")
REFIT = ("refit", "RUN", "--like", "OLD", "--overwrite")
SEARCH = ("search", "RUN", "--set", "iterations=30")
WITHIN = ("diversify", "RUN", *BUDGET)
AGAIN = ("search", "RUN", "--set", "iterations=25", "--overwrite")
RESULT = ("delta.safetensors", "result.json", "certificate.json")
JOBS = (
    Job("train", "", TRAIN, ("resume", "RUN"), TRAINED),
    Job(
        "train --overwrite",
        "found",
        (*TRAIN, "--overwrite", "--seed", "1"),
        ("resume", "RUN"),
        TRAINED,
        stage=".training",
    ),
    Job("search", "trained", SEARCH, ("resume", "RUN"), (*TRAINED, *FOUND), TRAINED, stage=".search"),
    Job(
        "search --overwrite",
        "found",
        AGAIN,
        ("resume", "RUN"),
        (*TRAINED, *FOUND),
        TRAINED,
        stage=".search",
    ),
    Job("diversify --budget", "trained", WITHIN, (), (*TRAINED, *RESULT), TRAINED),
    Job("diversify --overwrite", "found", (*WITHIN, "--overwrite"), (), (*TRAINED, *RESULT), TRAINED),
    Job("refit", "found", REFIT, (), (*TRAINED, *RESULT), TRAINED),
    Job("frontier", "found", FRONTIER, (), ("stdout",), (*TRAINED, *FOUND)),
    Job("explain", "found", EXPLAIN, (), ("explanation.json",), (*TRAINED, *FOUND)),
    Job("erase", "found", ERASE, (), ("factors_explanation.json",), (*TRAINED, *FOUND)),
    Job("report", "found", REPORT, (), ("report.html",), (*TRAINED, *FOUND), ("factors_explanation.json",)),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a killed command; bad: what is wrong, "" if nothing; killed: False if it had ended before."""

    job: str
    phase: str
    bad: str
    killed: bool = True


class Harness:
    """Prepared runs, undisturbed results and the phases of each command, once for all trials."""

    def __init__(self, folder: Path, jobs: tuple[Job, ...] = JOBS) -> None:
        self.folder, self.run, self.told = folder, folder / "trial" / "run", folder / "told"
        write_world(folder)
        self.expected: dict[str, dict[str, str]] = {}
        self.taken: dict[str, list[tuple[str, float]]] = {}
        self.hits: collections.Counter[tuple[str, str]] = collections.Counter()
        self.aims: collections.Counter[tuple[str, str]] = collections.Counter()
        self.after: dict[str, dict[str, str]] = {}
        for name, to in (("train", "trained"), ("search", "found"), ("diversify --budget", "within")):
            job = next(job for job in JOBS if job.name == name)
            self.fresh(job)
            self.undisturbed(job.start)
            shutil.copytree(self.run, folder / to)
        for job in jobs:
            self.fresh(job)
            out = self.undisturbed(job.start)
            self.taken[job.name] = list(segments(phases(self.told)))
            self.expected[job.name] = results(self.run, out, job.made)
            self.after[job.name] = seen(self.run)

    def words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        places = {"RUN": self.run, "DATA": self.folder / "a.csv", "ITEMS": self.folder / "items.csv"}
        places["OLD"] = self.folder / "within"
        return tuple(str(places.get(word, word)) for word in words)

    def undisturbed(self, words: tuple[str, ...]) -> str:
        code, out, err = finish(self.words(words), self.told)
        if code:
            raise RuntimeError(f"{' '.join(words)} ended with {code}: {err[-500:]}")
        return out

    def fresh(self, job: Job) -> None:
        shutil.rmtree(self.run.parent, ignore_errors=True)  # with the questions that are noted beside the run
        self.run.parent.mkdir()
        if job.prepared:
            shutil.copytree(self.folder / job.prepared, self.run)

    def trial(self, job: Job, luck: random.Random, *, aimed: bool = False, at: int | None = None) -> Outcome:
        """at: the number of a piece of the command's time, at whose beginning it is killed."""
        self.fresh(job)
        before, old = results(self.run, "", job.kept), seen(self.run)
        number, share = (at, 0.0) if at is not None else self.aim(job, luck) if aimed else self.any_moment(job, luck)
        process = start(self.words(job.start), self.told, stop_at=number)
        while process.is_alive() and not has_stopped(process):
            time.sleep(0.002)
        if process.is_alive() and share:
            os.kill(process.pid or 0, signal.SIGCONT)
            time.sleep(share * self.taken[job.name][number][1])
        process.kill()
        process.join()
        phase, killed = (phases(self.told) or [(0.0, "starting")])[-1][1], process.exitcode == -signal.SIGKILL
        self.hits[job.name, phase] += killed
        open_as_reader(self.run)
        lost = [name for name, was in before.items() if results(self.run, "", (name,))[name] != was]
        between = self.between(job, old) if job.prepared else ""
        bad = damaged(self.run) or (f"lost: {', '.join(lost)}" if lost else "") or between or self.goes_on(job)
        return Outcome(job.name, phase, bad, killed)

    def between(self, job: Job, old: dict[str, str]) -> str:
        """ "" if a reader sees the old run or the new one, else what is old and what is new.

        A run that did not exist before is resumed instead.
        """
        now, new = seen(self.run), self.after[job.name]
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        as_old = [name for name in changed if now.get(name) == old.get(name)]
        as_new = [name for name in changed if now.get(name) == new.get(name)]
        neither = [name for name in {**now, **old} if now.get(name) not in (old.get(name), new.get(name))]
        if neither:
            return f"neither old nor new: {', '.join(neither)}"
        if as_old and set(as_new) - {*job.apart, *CACHES}:
            return f"in between: {', '.join(as_old)} old, {', '.join(as_new)} new"
        return ""

    def any_moment(self, job: Job, luck: random.Random) -> tuple[int, float]:
        """Of the whole time that the command takes: the number of a piece of it, and a share of that piece."""
        pieces = [seconds for _, seconds in self.taken[job.name]]
        number = luck.choices(range(len(pieces)), pieces)[0]
        return number, luck.random()

    def aim(self, job: Job, luck: random.Random) -> tuple[int, float]:
        """At the phase that was hit or aimed at least."""
        known = self.taken[job.name]
        rarest = min(self.phases_of(job), key=lambda it: self.hits[job.name, it] + self.aims[job.name, it])
        self.aims[job.name, rarest] += 1
        return luck.choice([number for number, (phase, _) in enumerate(known) if phase == rarest]), luck.random()

    def phases_of(self, job: Job) -> list[str]:
        """Those that take a thousandth of a second or more."""
        known = self.taken[job.name]
        names = dict.fromkeys(phase for phase, _ in known)
        return [name for name in names if sum(seconds for phase, seconds in known if phase == name) >= 0.001]

    def goes_on(self, job: Job) -> str:
        """ "" if the command can be resumed, or given again where there is nothing to resume, to the same bits."""
        if "stdout" not in job.made and seen(self.run) == self.after[job.name]:
            return ""
        waits = (self.run / job.stage).is_dir() if job.stage else (self.run / "config.toml").exists()
        words = job.again if waits and job.again else job.start
        code, out, err = finish(self.words(words), self.told)
        if code and words != job.start:  # killed before it had noted what to resume
            words = job.start
            code, out, err = finish(self.words(words), self.told)
        if code:
            return f"{' '.join(words)} ended with {code}: {err.strip().splitlines()[-1:]}"
        made = results(self.run, out, job.made)
        changed = [name for name, wanted in self.expected[job.name].items() if made[name] != wanted]
        return f"came out otherwise: {', '.join(changed)}" if changed else ""


def open_as_reader(run: Path) -> None:
    """Complete what a killed process has begun to move, as every command does when it opens the run."""
    from recprism.errors import RecprismError
    from recprism.runs.run import Run

    with contextlib.suppress(RecprismError):
        Run.open(run)


def seen(run: Path) -> dict[str, str]:
    """What a reader sees of a run: a fingerprint of every file; hidden ones are temporary, events only grow."""
    names = [path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file()]
    shown = [
        str(it) for it in names if not any(part.startswith(".") for part in it.parts) and it.name != "events.jsonl"
    ]
    return results(run, "", tuple(shown))


def write_world(folder: Path) -> None:
    """160 users and 120 items of six kinds, in files of one's own."""
    luck = random.Random(0)
    pairs = sorted({(user, int(120 * luck.random() ** 2)) for user in range(160) for _ in range(30)})
    (folder / "a.csv").write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u, i in pairs), encoding="utf-8")
    rows = "".join(f"{i},Film {i},k{i % 6}|k{i % 4}\n" for i in range(120))
    (folder / "items.csv").write_text("item_id,title,kind\n" + rows, encoding="utf-8")


def segments(noted: list[tuple[float, str]]) -> Iterator[tuple[str, float]]:
    """(phase, seconds) one after the other; the last one ends with the process, soon after it began."""
    for (at, phase), (until, _) in zip(noted, [*noted[1:], (noted[-1][0] + 0.05, "")], strict=True):
        yield phase, until - at


def results(run: Path, out: str, names: tuple[str, ...]) -> dict[str, str]:
    """A fingerprint of what each file says, "" where it is missing; a page also says when and how fast it was made."""
    found = {}
    for name in names:
        path = run / name
        content = out.encode() if name == "stdout" else path.read_bytes() if path.exists() else None
        if content is not None and path.suffix == ".html":
            content = re.sub(rb"<t[dh][^>]*>(\d{4}-\d\d-\d\d [\d:]+ UTC|\d+)</t[dh]>", b"", content)
        found[name] = "" if content is None else hashlib.sha256(content).hexdigest()
    return found


def damaged(run: Path) -> str:
    """The first file under a final name that cannot be read whole; temporary names (.NAME.part) do not count."""
    import polars as pl
    from safetensors.numpy import load_file

    def whole(ending: str) -> object:
        return lambda path: path.read_text(encoding="utf-8").endswith(ending) or 1 / 0

    readers = {
        ".safetensors": load_file,
        ".parquet": pl.read_parquet,
        ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
        ".toml": whole("# end\n"),
        ".html": lambda path: path.read_text(encoding="utf-8").rstrip().endswith("</html>") or 1 / 0,
        ".md": whole("\n"),
    }
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
    for path in files:
        if any(part.startswith(".") for part in path.relative_to(run).parts):
            continue
        try:
            readers.get(path.suffix, Path.read_bytes)(path)  # type: ignore[operator]
        except Exception as problem:
            return f"{path.name} is half written ({problem})"
    return ""


def table(outcomes: list[Outcome]) -> str:
    """For docs/reliability.md."""
    counts: dict[str, collections.Counter[str]] = {}
    for it in (it for it in outcomes if it.killed):
        counts.setdefault(it.job, collections.Counter())[it.phase] += 1
    lines = ["| command | kills | of them while |", "|---|---|---|"]
    for job, of in counts.items():
        said = ", ".join(f"{phase} {count}" for phase, count in of.most_common())
        lines.append(f"| {job} | {of.total()} | {said} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--log", type=Path, help="one line of JSON for each kill")
    given = options.parse_args()
    luck = random.Random(given.seed)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder))
        while sum(it.killed for it in outcomes) < given.kills:
            number = len(outcomes)
            aimed = bool(number // len(JOBS) % 2)
            outcomes.append(harness.trial(JOBS[number % len(JOBS)], luck, aimed=aimed))
            if given.log is not None:
                with given.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(vars(outcomes[-1])) + "\n")
    known = {(job.name, phase) for job in JOBS for phase in harness.phases_of(job)}
    missed = sorted(f"{job}: {phase}" for job, phase in known - set(harness.hits))
    bad = [it for it in outcomes if it.bad]
    sys.stdout.write(table(outcomes) + "\n\n")
    sys.stdout.write(f"{len(known)} phases, not hit: {'; '.join(missed) or 'none'}\n")
    for it in bad:
        sys.stdout.write(f"BAD {it.job}, {it.phase}: {it.bad}\n")
    kills = sum(it.killed for it in outcomes)
    sys.stdout.write(f"{kills} kills, {len(outcomes) - kills} came too late; {len(bad)} bad\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
