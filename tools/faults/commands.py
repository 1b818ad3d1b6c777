"""Commands in processes of their own that need not load the libraries again, and note in which phase they are."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from phases import Recorder

LOADED = ["torch", "polars", "numba", "recprism.cli", "recprism.runs.jobs.diversify", "recprism.contest.fronts"]
LOADED += ["recprism.report.page", "recprism.forms.vectors", "recprism.explain.explained", "phases"]
server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(LOADED)


def start(
    words: tuple[str, ...], into: Path, *, stop_at: int = -1, largest_file: int = 0, user: int = 0
) -> ForkServerProcess:
    """A command that has begun; ``into`` takes its phases, out and err.

    stop_at: see ``Recorder``; largest_file: bytes that it may write into one file, 0 any number; user: whose rights it
    has, 0 those of whoever tests
    """
    into.mkdir(parents=True, exist_ok=True)
    for file in into.iterdir():
        file.unlink()
    process = server.Process(target=_run, args=(words, into, stop_at, largest_file, user))
    process.start()
    return process


def has_stopped(process: ForkServerProcess) -> bool:
    try:
        return Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        return False


def finish(words: tuple[str, ...], into: Path, **limits: int) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command that comes to its end; limits: see ``start``."""
    process = start(words, into, **limits)
    process.join()
    out, err = ((into / name).read_text(encoding="utf-8") for name in ("out", "err"))
    return process.exitcode or 0, out, err


def _run(words: tuple[str, ...], into: Path, stop_at: int, largest_file: int, user: int) -> None:
    for name, handle in (("out", 1), ("err", 2)):
        file = os.open(into / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, handle)
    sys.argv = ["recprism", *words]
    from recprism.cli import main

    recorder = Recorder(str(into / "phases"), stop_at)
    if largest_file:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the writer gets EFBIG then, as from a disk that is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    else:
        sys.setprofile(recorder)
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    main()


def phases(into: Path) -> list[tuple[float, str]]:
    """(seconds, phase) of every change of phase so far."""
    path = into / "phases"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    pairs = (line.strip().split(" ", 1) for line in lines if line.endswith("\n"))
    return [(float(at), phase) for at, phase in pairs]
