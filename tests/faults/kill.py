"""Runs that are killed at random moments: nothing half-written under its final name, and a resume to the same bits.

python tests/faults/kill.py --kills 200

Each trial copies a prepared run, starts a command on it, kills it with SIGKILL after a random share of the time that
the command takes, looks at every file, goes on as the command line says, and compares what came out with a run that
nobody disturbed.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

DATA = ("--data", "ml-latest-small", "--device", "cpu", "--set", "epochs=8", "--set", "dim=8")
BUDGET = ("--budget", "0.1", "--goal", "sc")


@dataclass(frozen=True)
class Job:
    """start: what is killed; again: how to go on; made: the files that must come out the same."""

    name: str
    prepared: str
    start: tuple[str, ...]
    again: tuple[str, ...]
    made: tuple[str, ...]


JOBS = (
    Job(
        "train",
        "",
        ("train", "-o", "RUN", *DATA),
        ("train", "--resume", "RUN"),
        ("factors.safetensors", "split.parquet"),
    ),
    Job(
        "diversify",
        "trained",
        ("diversify", "RUN", "--set", "iterations=60"),
        ("diversify", "--resume", "RUN"),
        ("delta.safetensors", "cmb.json"),
    ),
    Job(
        "diversify within",
        "trained",
        ("diversify", "RUN", *BUDGET),
        ("diversify", "RUN", *BUDGET, "--overwrite"),
        ("delta.safetensors", "certificate.json"),
    ),
    Job("report", "found", ("report", "RUN", "--draws", "0"), ("report", "RUN", "--draws", "0"), ("report.html",)),
)


def recprism(*words: str) -> list[str]:
    return [sys.executable, "-m", "recprism", *words]


def on(run: Path, words: tuple[str, ...]) -> list[str]:
    return recprism(*(str(run) if word == "RUN" else word for word in words))


def quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True)
class Outcome:
    """What became of a killed command.

    phase: how far it had come, by the files and events that were there; bad: what is wrong, "" if nothing
    """

    job: str
    phase: str
    bad: str


class Harness:
    """Prepared runs, undisturbed results and how long each command takes, once for all trials."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        trained = folder / "trained"
        quietly(on(trained, JOBS[0].start))
        found = folder / "found"
        shutil.copytree(trained, found)
        quietly(on(found, JOBS[1].start))
        self.expected: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        for job in JOBS:
            run, started = self.fresh(job), time.perf_counter()
            quietly(on(run, job.start))
            self.seconds[job.name] = time.perf_counter() - started
            self.expected[job.name] = {name: result(run / name) for name in job.made}

    def fresh(self, job: Job) -> Path:
        run = self.folder / "trial"
        shutil.rmtree(run, ignore_errors=True)
        if job.prepared:
            shutil.copytree(self.folder / job.prepared, run)
        return run

    def trial(self, job: Job, luck: random.Random) -> Outcome:
        run = self.fresh(job)
        process = subprocess.Popen(on(run, job.start), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(luck.uniform(0.2, 1.05) * self.seconds[job.name])
        process.kill()
        process.wait()
        phase, bad = phase_of(run), damaged(run)
        return Outcome(job.name, phase, bad or self.goes_on(job, run))

    def goes_on(self, job: Job, run: Path) -> str:
        """ "" if the command can be taken up again, or started anew where nothing was begun, to the same bits."""
        begun = (run / "config.toml").exists()
        shutil.rmtree(run, ignore_errors=True) if not begun else None
        words = job.again if begun else job.start
        if job.name == "diversify" and "diversify" not in (run / "config.toml").read_text(encoding="utf-8"):
            words = job.start  # killed before it had noted what it was asked for
        done = subprocess.run(on(run, words), check=False, capture_output=True, text=True)
        if done.returncode:
            return f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
        changed = [name for name, wanted in self.expected[job.name].items() if result(run / name) != wanted]
        return f"came out otherwise: {', '.join(changed)}" if changed else ""


def result(path: Path) -> str:
    """A fingerprint of what a file says; a report also says when it was made, so only its length to the nearest kB."""
    content = path.read_bytes()
    return str(len(content) // 4096) if path.suffix == ".html" else hashlib.sha256(content).hexdigest()


def phase_of(run: Path) -> str:
    if not (run / "config.toml").exists():
        return "before the run was begun"
    names = {path.name for path in run.iterdir()}
    for name in ("report.html", "certificate.json", "delta.safetensors", "search.checkpoint.safetensors"):
        if name in names:
            return f"with {name}"
    if "factors.safetensors" in names:
        return "with factors"
    return "in training" if "training.checkpoint.safetensors" in names else "before the first epoch"


def damaged(run: Path) -> str:
    """The first file under a final name that cannot be read whole; temporary names (.NAME.part) do not count."""
    import polars as pl
    from safetensors.numpy import load_file

    readers = {
        ".safetensors": load_file,
        ".parquet": pl.read_parquet,
        ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
        ".html": lambda path: path.read_text(encoding="utf-8").rstrip().endswith("</html>") or 1 / 0,
        ".md": lambda path: path.read_text(encoding="utf-8").endswith("\n") or 1 / 0,
    }
    for path in sorted(run.glob("[!.]*")) if run.exists() else []:
        try:
            readers.get(path.suffix, Path.read_bytes)(path)
        except Exception as problem:
            return f"{path.name} is half written ({problem})"
    return ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    luck = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder))
        outcomes = [harness.trial(JOBS[number % len(JOBS)], luck) for number in range(given.kills)]
    counts = collections.Counter((it.job, it.phase) for it in outcomes)
    for (job, phase), count in sorted(counts.items()):
        sys.stdout.write(f"{job:18} {phase:42} {count:4}\n")
    bad = [it for it in outcomes if it.bad]
    for it in bad:
        sys.stdout.write(f"BAD {it.job}, {it.phase}: {it.bad}\n")
    sys.stdout.write(f"{len(outcomes)} kills, {len(bad)} bad\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
