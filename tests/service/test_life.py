"""A new export, the kill switch, the end, and a killed process: no request is lost."""

from __future__ import annotations

import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from serving_world import Served, Start, file_of, request_of, wait_until

from recprism.budget import Promise
from recprism.errors import InputError
from recprism.forms.rule_file import ARRAYS, FACTS
from recprism.service import Answer, Client, ServiceError
from recprism.serving import load_rule

OLD, NEW = 0.4, 0.9
"""The trade-offs of an export and of its successor."""


def replace_export(export: Path, **changes: object) -> None:
    """Write another export, and put it in the place of the old one, as a release would."""
    shutil.rmtree(export.with_name("next"), ignore_errors=True)
    file_of(trade_off=NEW, **changes).write(export.with_name("next"))
    export.rename(export.with_name("gone"))
    export.with_name("next").rename(export)


@contextmanager
def load_of(address: str, threads: int = 4) -> Iterator[list[Answer]]:
    """Clients that ask without a pause; an answer that fails ends the test."""
    answers: list[Answer] = []
    stop, problems = threading.Event(), list[BaseException]()

    def ask(first: int) -> None:
        number = first
        try:
            with Client(address, retries=12) as client:
                while not stop.is_set():
                    answers.append(client.rerank(**request_of(number % 7), request_id=f"r{number}"))
                    number += threads
        except BaseException as problem:
            problems.append(problem)

    running = [threading.Thread(target=ask, args=(at,)) for at in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in running:
            thread.join()
    assert problems == []


def by_signal(served: Served) -> None:
    served.kill(signal.SIGHUP)


def by_request(served: Served) -> None:
    with served.client() as client:
        client.reload()


def by_watching(_served: Served) -> None:
    """The service looks itself."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "words"),
    [(by_signal, ()), (by_request, ()), (by_watching, ("--watch",)), (by_request, ("--workers", "2"))],
)
def test_a_new_export_is_loaded_without_a_lost_request(
    start: Start, export: Path, ask: Callable[[Served], None], words: tuple[str, ...]
) -> None:
    served = start(export, *words)
    old = load_rule(export)
    with load_of(served.address) as answers:
        wait_until(lambda: len(answers) > 40)
        replace_export(export)
        ask(served)
        wait_until(lambda: bool(answers) and answers[-1].trade_off == NEW)
        after = len(answers)
        wait_until(lambda: len(answers) > after + 40)
    new = load_rule(export)
    assert {it.trade_off for it in answers} == {OLD, NEW}
    for found in answers:
        rule = old if found.trade_off == OLD else new
        expected = rule.rerank(**request_of(int(found.request[1:]) % 7))
        assert (found.ids, found.reasons) == (expected.ids, expected.reasons), "a list is of one rule, old or new"
    assert served.ask("/rule")[1]["problem"] == ""


def cut_short(export: Path) -> None:
    (export / ARRAYS).write_bytes((export / ARRAYS).read_bytes()[:100])


def no_json(export: Path) -> None:
    (export / FACTS).write_text("{", encoding="utf-8")


def wrong_sizes(export: Path) -> None:
    replace_export(export, indices=np.full(3, 10_000, np.int32))


def missing(export: Path) -> None:
    (export / ARRAYS).unlink()


@pytest.mark.parametrize("damage", [cut_short, no_json, wrong_sizes, missing])
def test_a_damaged_export_keeps_the_old_rule(start: Start, export: Path, damage: Callable[[Path], None]) -> None:
    served = start(export)
    before = served.ask("/rerank", request_of())[1]["ids"]
    damage(export)
    with served.client() as client, pytest.raises(InputError, match="was not loaded, and the old one stays"):
        client.reload()
    assert served.ask("/ready")[:2] == (200, {"ready": True})
    assert "was not loaded" in served.ask("/rule")[1]["problem"]
    assert "was not loaded" in " ".join(served.err.read_text(encoding="utf-8").split())
    assert served.ask("/rerank", request_of())[1]["ids"] == before
    assert 'recprism_loads_total{result="refused"} 1' in served.ask("/metrics")[1]
    shutil.rmtree(export)
    file_of(trade_off=NEW).write(export)
    assert served.ask("/reload", b"")[0] == 200
    assert served.ask("/rule")[1]["problem"] == ""


def test_the_kill_switch_stays_on_over_a_reload(start: Start, export: Path) -> None:
    served = start(export, "--disabled")
    with served.client() as client:
        assert client.rerank(**request_of()).fallback == "disabled"
        client.reload()
        assert client.rerank(**request_of()).fallback == "disabled"
        client.enable()
        assert client.rerank(**request_of()).fallback is None
        client.enable(False)
        client.reload()
        found = client.rerank(**request_of())
        assert (found.fallback, found.shown, found.ids) == ("disabled", "base", found.base)
        assert client.metrics()["recprism_enabled"] == 0
        assert client.rule()["enabled"] is False


def test_prices_and_candidates_of_the_command_line(start: Start, export: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"new users": "5%"}', encoding="utf-8")
    served = start(export, "--prices", str(tmp_path / "prices.json"), "--candidates", "8", "--max-k", "7")
    expected = load_rule(export, candidates=8, prices={"new users": 0.05}).rerank(**request_of(), price="new users")
    with served.client() as client:
        found = client.rerank(**request_of(), price="new users")
        assert (found.trade_off, found.ids) == (0.05, expected.ids)
        with pytest.raises(InputError, match="lists of at most 7"):
            client.rerank(**request_of(), k=8)


def test_the_scorer_of_the_command_line_is_compared_with_the_tested_one(start: Start, tmp_path: Path) -> None:
    file = file_of(candidates=30)
    promise = {"budgets": {"ndcg@5": 0.05}, "losses": {"ndcg@5": 0.01}, "confidence": 0.95, "questions": 1}
    promise |= {"approximate": False, "users": 100, "part": "test", "procedure": "rule", "trade_off": file.trade_off}
    certificate = Promise(**promise, limits={}, scorer="bpr-1", tested=file.tested())
    replace(file, certificate=certificate).write(tmp_path / "rule")
    with start(tmp_path / "rule", "--scorer", "bpr-1").client() as client:
        assert client.rule()["certificate"] == certificate.to_dict()
        assert client.rerank(**request_of()).as_tested is True
        assert client.rerank(**request_of(), scorer="bpr-2").as_tested == ("scorer 'bpr-2', tested with 'bpr-1'",)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_waits_for_requests_in_flight_and_writes_the_log(
    start: Start, export: Path, tmp_path: Path, number: int
) -> None:
    served = start(export, "--log", str(tmp_path / "log"), "--max-candidates", "100000")
    many = {
        "candidates": [f"x{at}" for at in range(20_000)],
        "scores": list(range(20_000)),
        "history": [],
        "entry_prices": True,
    }
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(served.ask("/rerank", many)[0]))
    with served.client() as client:
        client.rerank(**request_of(), request_id="first")
        asking.start()
        wait_until(lambda: client.metrics()["recprism_in_flight"] == 1)
    served.kill(number)
    asking.join()
    assert (found, served.wait()) == ([200], 0)
    assert pl.read_parquet(tmp_path / "log" / "*.parquet").height == 2
    assert not served.is_ready()


def test_while_it_drains_it_answers_and_is_not_ready(start: Start, export: Path) -> None:
    served = start(export, "--drain", "600")
    served.kill()
    wait_until(lambda: served.ask("/ready")[0] == 503)
    assert "retry-after" not in served.ask("/ready")[2], "this process takes no more requests"
    assert served.ask("/health")[0] == 200
    assert served.ask("/rerank", request_of())[0] == 200
    served.kill()  # a second signal does not wait
    assert served.wait() == 0


@pytest.mark.slow
def test_a_client_with_retries_loses_nothing_over_a_kill_and_a_restart(start: Start, export: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served, rule = start(export, port=port), load_rule(export)
    probe = Client(served.address)
    assert probe.ready()
    with load_of(served.address) as answers:
        wait_until(lambda: len(answers) > 40)
        served.kill(signal.SIGKILL)
        assert served.wait() == -signal.SIGKILL
        before = len(answers)
        start(export, port=port)
        assert probe.ready(), "its old connection is gone, and the service is there"
        wait_until(lambda: len(answers) > before + 40)
    probe.close()
    asked = sorted(int(it.request[1:]) for it in answers)
    for at in range(4):
        own = [it for it in asked if it % 4 == at]
        assert own == list(range(at, at + 4 * len(own), 4)), "every request is answered, once"
    for found in answers:
        assert found.ids == rule.rerank(**request_of(int(found.request[1:]) % 7)).ids


def test_a_client_without_a_service_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retries=2, backoff=0.001) as client:
        assert (client.health(), client.ready()) == (False, False)
        with pytest.raises(ServiceError, match="no answer after 3 attempts"):
            client.rerank(["a"], [1.0], history=[])
    with pytest.raises(InputError, match="is no address of a service"):
        Client("127.0.0.1:1")


def test_a_client_waits_as_long_as_the_service_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses twice, then answers: Retry-After is kept, and the request has one id."""
    seen: list[str] = []
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)

    def refuse_twice(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for status in (b"503 Busy", b"503 Busy", b"422 Wrong"):
                head = []
                while (line := lines.readline().strip()) != b"":
                    head.append(line.decode())
                lines.read(int(next(it for it in head if it.startswith("Content-Length")).split()[1]))
                seen.append(next(it for it in head if it.startswith("X-Request-Id")))
                body = b'{"detail": "enough"}'
                connection.sendall(b"HTTP/1.1 %s\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
                connection.sendall(body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=refuse_twice, args=(listener,))
        answering.start()
        with (
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}", backoff=0.001) as client,
            pytest.raises(InputError, match="enough"),
        ):
            client.rerank(["a"], [1.0], history=[])
        answering.join()
    assert (len(seen), len(set(seen))) == (3, 1)
    assert waits == [1, 1]
