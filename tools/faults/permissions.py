"""Files and folders of a run that may not be read or written: one sentence that names them, and nothing changes.

python tools/faults/permissions.py

Root may do anything, so there the commands run without the rights to pass over permissions (setpriv).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kill import FOUND, JOBS, TRAINED, Harness, results

HELD = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
READ = ("evaluate", "RUN", "--bootstrap", "0")
REPORT = ("report", "RUN", "--draws", "0")
WRITE = ("search", "RUN", "--set", "iterations=2", "--overwrite")
CASES = (
    ("the folder may not be entered", ".", 0o000, READ),
    ("the folder may not be entered", ".", 0o000, WRITE),
    ("the folder may not be written", ".", 0o555, WRITE),
    ("the folder may not be written", ".", 0o555, REPORT),
    ("the folder may not be written", ".", 0o555, ("export", "RUN")),
    ("the folder may not be written", ".", 0o555, ("resume", "RUN")),
    *((f"{name} may not be read", name, 0o000, READ) for name in ("config.toml", *TRAINED, *FOUND)),
    ("events.jsonl may not be written", "events.jsonl", 0o444, WRITE),
    ("events.jsonl may not be read", "events.jsonl", 0o000, REPORT),
)


@dataclass(frozen=True)
class Outcome:
    """how: "refused", "not needed" (it ended well) or "bad"."""

    what: str
    command: str
    how: str
    said: str


def rights() -> tuple[str, ...] | None:
    """What stands before a command so that permissions count; None where that cannot be had."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        return None
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).chmod(0)
        done = subprocess.run([*HELD, "cat", file.name], check=False, capture_output=True)
    return HELD if done.returncode else None


def is_usage_error(done: subprocess.CompletedProcess[str]) -> bool:
    """What the command line says of a folder that it is given and may not enter."""
    return done.returncode == 2 and "is not readable" in done.stderr


def trial(harness: Harness, before: tuple[str, ...], case: tuple[str, str, int, tuple[str, ...]]) -> Outcome:
    what, name, mode, words = case
    harness.fresh(JOBS[-1])
    kept = results(harness.run, "", (*TRAINED, *FOUND))
    place = harness.run / name
    usual = place.stat().st_mode
    place.chmod(mode)
    command = [*before, sys.executable, "-m", "recprism", *harness.words(words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    place.chmod(usual)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    changed = [it for it, was in kept.items() if results(harness.run, "", (it,))[it] != was]
    if done.returncode == 0:
        return Outcome(what, words[0], "not needed", "")
    said = errors[0] if errors else done.stderr[-300:]
    denied = done.returncode == 1 and len(errors) == 1 and "permission denied" in said and str(harness.run) in said
    refused = (denied or is_usage_error(done)) and not changed and "Traceback" not in done.stderr
    return Outcome(what, words[0], "refused" if refused else "bad", f"{said} {changed or ''}")


def main() -> None:
    before = rights()
    if before is None:
        raise SystemExit("permissions do not count for this user, and setpriv is not to be had")
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder), ())
        outcomes = [trial(harness, before, case) for case in CASES]
    sys.stdout.write("| what | command | outcome |\n|---|---|---|\n")
    for it in outcomes:
        sys.stdout.write(f"| {it.what} | {it.command} | {it.how} |\n")
    for it in outcomes:
        sys.stdout.write(f"{it.how}: {it.what}, {it.command}: {it.said}\n" if it.how == "bad" else "")
    sys.exit(any(it.how == "bad" for it in outcomes))


if __name__ == "__main__":
    main()
