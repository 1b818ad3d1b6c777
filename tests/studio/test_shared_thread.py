"""Threads outlive the studios that use them; nothing else does."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from concurrent.futures import CancelledError
from pathlib import Path
from types import FunctionType

import pytest
from fastapi.testclient import TestClient

from recprism.studio.app import create_app
from recprism.studio.shared_thread import SharedThread


def test_a_thread_outlives_the_studios_that_use_it() -> None:
    seen = set()
    for _ in range(3):
        share = SharedThread("test")
        seen.add(share.submit(threading.current_thread).result())
        share.shutdown()
    other = SharedThread("another kind").submit(threading.current_thread).result()
    assert len(seen) == 1
    assert other not in seen


def test_closing_ends_only_the_work_of_one_studio() -> None:
    mine, theirs, begun, held = SharedThread("test"), SharedThread("test"), threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return held.wait(60)

    running, before, waiting = mine.submit(hold), theirs.submit(str, 1), mine.submit(str, 2)
    assert begun.wait(60)
    closing = threading.Thread(target=mine.shutdown, kwargs={"cancel_futures": True})
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(60)
    assert closing.is_alive(), "it waits for running work"
    held.set()
    closing.join(60)
    assert running.result(0)
    assert before.result(60) == "1"
    with pytest.raises(RuntimeError, match="closed"):
        mine.submit(str, 3)
    assert theirs.submit(str, 4).result(60) == "4"


@pytest.mark.slow
def test_a_closed_studio_leaves_no_function_behind(shelf: Path) -> None:
    """FastAPI keeps the functions it was given; functions of one studio would stay."""
    before = _made_while_running()
    for _ in range(3):
        _look_at(shelf / "empty")
    assert _made_while_running() - before == Counter()


def _look_at(run: Path) -> None:
    with TestClient(create_app([run]), base_url="http://127.0.0.1") as client:
        assert client.get("/").status_code == client.get("/api").status_code == 200


def _made_while_running() -> Counter[str]:
    """The server's functions that were defined inside another one, by name."""
    gc.unfreeze()
    gc.collect()
    functions = (it for it in gc.get_objects() if type(it) is FunctionType)  # does not access other objects
    return Counter(
        it.__qualname__
        for it in functions
        if str(it.__module__).startswith("recprism.studio") and "<locals>" in it.__qualname__
    )
