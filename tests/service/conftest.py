"""Services that run the real command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from serving_world import STARTER, Served, Start, asked, file_of, port_in, wait_until


@pytest.fixture(scope="session")
def starter() -> Iterator[subprocess.Popen[str]]:
    """The parent of all services, which end with it."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def launch(starter: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start a service of an export; words: more of the command line; waits until it is ready."""

    def one(export: Path, *words: str, port: int = 0, **env: str) -> Served:
        err = tmp_path_factory.mktemp("service") / "err"
        line = [str(export), "--port", str(port), *words]
        pid = int(asked(starter, {"words": line, "env": env, "err": str(err)}))
        found = Served(pid, port or port_in(err), err, starter)
        wait_until(found.is_ready)
        return found

    return one


@pytest.fixture
def start(launch: Start) -> Iterator[Start]:
    """The same; the services end with the test."""
    started: list[Served] = []

    def one(*words: Any, **options: Any) -> Served:
        started.append(launch(*words, **options))
        return started[-1]

    yield one
    for served in started:
        with contextlib.suppress(ProcessLookupError):
            served.kill(signal.SIGKILL)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file_of().write(tmp_path / "rule")
    return tmp_path / "rule"


@pytest.fixture(scope="session")
def shared_export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "rule"
    file_of().write(folder)
    return folder


@pytest.fixture(scope="session", params=[(), ("--workers", "2")], ids=["alone", "with workers"])
def served(launch: Start, shared_export: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """A service that tests share: none of them changes it. Workers change no answer."""
    found = launch(shared_export, *request.param)
    yield found
    found.kill(signal.SIGKILL)
