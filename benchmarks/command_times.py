"""What audit, diversify and report take on a trained run, each as a user runs it: a fresh process, warm kernels.

    recprism train --data ml-1m -o runs/ml1m
    python benchmarks/command_times.py runs/ml1m [--json]

Each command runs once to compile its kernels, then once on another copy of the run. CPU seconds are of all its threads.
They grow with the work, whatever else the machine does; seconds by the clock are for two quiet cores.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Claim, parser, report

# Command -> seconds by the clock that it may take on MovieLens-1M.
COMMANDS: dict[tuple[str, ...], float] = {("audit",): 30, ("diversify", "--budget", "5%"): 25, ("report",): 25}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="a trained run without a result")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, second = (shutil.copytree(chosen.run, Path(folder) / name / "run") for name in ("first", "second"))
        for words in COMMANDS:
            taken(words, first)
        shutil.rmtree(first)
        found = {words: taken(words, without_audit(words, second)) for words in COMMANDS}
    claims = []
    for words, (cpu, seconds) in found.items():
        claims.append(Claim(f"{' '.join(words)}: CPU seconds", round(cpu, 1), None))
        claims.append(Claim(f"{' '.join(words)}: seconds", round(seconds, 1), COMMANDS[words]))
    report(claims, as_json=chosen.json)


def without_audit(words: tuple[str, ...], run: Path) -> Path:
    """Return the run; before ``diversify``, without lists and answers of the audit, which it would take over."""
    for file in (*run.glob("path.*"), *run.glob("audit.json")) if words[0] == "diversify" else ():
        file.unlink()
    return run


def taken(words: tuple[str, ...], run: Path) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "recprism", words[0], str(run), *words[1:]]
    subprocess.run(command, check=True, capture_output=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


if __name__ == "__main__":
    main()
