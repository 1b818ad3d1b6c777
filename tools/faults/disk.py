"""A disk that is full: one sentence, nothing half-written, and the same bits once there is room again.

python tools/faults/disk.py

Each command runs on a small disk of its own (tmpfs, which needs root) with room for none, some or all of what it
writes; afterwards the disk is made larger and the command taken up again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from commands import finish
from kill import FOUND, JOBS, Harness, Job, damaged, results

PAGE = 4096
ROOMS = (0, 1, 2, 4, 6, 9, 14, 20, 30, 60, 120, 250)  # pages
EXPORT = ("export", "RUN", "--to", "parquet")
MADE = ("export-vectors/expected.json", "export-vectors/export.json")
WRITERS = (*(job for job in JOBS if job.name != "frontier"), Job("export", "found", EXPORT, EXPORT, MADE, FOUND))
FRONTIER = next(job for job in JOBS if job.name == "frontier")


@dataclass(frozen=True)
class Outcome:
    """refused: whether the room was too small; bad: what is wrong, "" if nothing."""

    job: str
    room: int
    refused: bool
    said: str
    bad: str


@contextmanager
def small_disk(at: Path) -> Iterator[None]:
    """PermissionError where no disk can be made."""
    at.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "size=256m", "recprism-test", str(at))
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def resize(at: Path, pages: int) -> None:
    _mount("-o", f"remount,size={max(pages, 1) * PAGE}", str(at))


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise PermissionError(done.stderr.strip())


def used(at: Path) -> int:
    found = os.statvfs(at)
    return (found.f_blocks - found.f_bfree) * found.f_frsize // PAGE


def trial(harness: Harness, job: Job, room: int) -> Outcome:
    disk = harness.run.parent
    resize(disk, 65536)
    harness.fresh(job)
    before = results(harness.run, "", job.kept)
    resize(disk, used(disk) + room)
    code, _, err = finish(harness.words(job.start), harness.told)
    lost = [name for name, was in before.items() if results(harness.run, "", (name,))[name] != was]
    bad = damaged(harness.run) or (f"lost: {', '.join(lost)}" if lost else "") or judged(code, err)
    resize(disk, 65536)
    said = err.strip().splitlines()[-1] if code else ""
    return Outcome(job.name, room, bool(code), said, bad or harness.goes_on(job) if code else bad)


def judged(code: int, err: str) -> str:
    """ "" if a command ended well, or with code 1 and one sentence about the disk."""
    if code == 0:
        return ""
    if "Traceback" in err or code != 1:
        return f"ended with {code}: {err.strip().splitlines()[-1:]}"
    errors = [line for line in err.splitlines() if line.startswith("error:")]
    return "" if len(errors) == 1 and "no space left on the disk" in errors[0] else f"said {err.strip()[-300:]!r}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--command", help="this one alone")
    wanted = options.parse_args().command
    jobs = tuple(job for job in (*WRITERS, FRONTIER) if wanted in (None, job.name))
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), jobs)
        outcomes = []
        with small_disk(harness.run.parent):
            for job in jobs:
                outcomes += [trial(harness, job, room) for room in (ROOMS if job is not FRONTIER else (0,))]
    sys.stdout.write("| command | trials | ran out of space | bad |\n|---|---|---|---|\n")
    for job in jobs:
        of = [it for it in outcomes if it.job == job.name]
        sys.stdout.write(
            f"| {job.name} | {len(of)} | {sum(it.refused for it in of)} | {sum(it.bad != '' for it in of)} |\n"
        )
    for it in outcomes:
        if it.bad:
            sys.stdout.write(f"BAD {it.job}, {it.room} pages: {it.bad}\n")
    sys.exit(any(it.bad for it in outcomes))


if __name__ == "__main__":
    main()
