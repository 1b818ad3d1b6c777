"""Tokens, limits, other sites, and the description."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from serving_world import Served, Start, file_of, request_of, value, wait_until
from starlette.responses import JSONResponse

from recprism.errors import InputError
from recprism.service import ServiceError, Settings, create_app
from recprism.service._guards import Guard, Places
from recprism.service._metrics import Metrics
from recprism.service._service import MOST_SLOW, Service, TooManyError
from recprism.service.client import figures_in
from recprism.service.limits import Allowed

OWNER, CALLER = "owner", "caller"


@pytest.fixture(scope="module")
def guarded(launch: Start, shared_export: Path) -> Served:
    return launch(shared_export, "--token", OWNER, "--caller-token", CALLER, "--max-bytes", "4096")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_every_route_but_the_probes_needs_the_token(guarded: Served) -> None:
    for path in ("/health", "/ready"):
        assert guarded.ask(path)[0] == 200
    for path in ("/metrics", "/rule", "/openapi.json", "/nowhere"):
        assert guarded.ask(path)[0] == 401
        assert guarded.ask(path, **bearer("wrong"))[0] == 401
        assert guarded.ask(path, **bearer(OWNER))[0] == (404 if path == "/nowhere" else 200)
    for token, status in ((OWNER, 200), (CALLER, 200), ("wrong", 401)):
        assert guarded.ask("/rerank", request_of(n=10), **bearer(token))[0] == status


def test_wrong_tokens_are_limited_and_lock_nobody_out(start: Start, export: Path) -> None:
    served = start(export, "--token", OWNER)
    statuses = [served.ask("/rule", **bearer(f"wrong {number}"))[0] for number in range(60)]
    assert statuses[:30] == [401] * 30
    assert 429 in statuses[30:]
    assert served.ask("/rule", **bearer(OWNER))[0] == 200


def test_callers_change_nothing(guarded: Served) -> None:
    for path, body in (("/reload", b""), ("/enabled", {"enabled": True})):
        assert guarded.ask(path, body, **bearer(CALLER))[0] == 403
        assert guarded.ask(path, body)[0] == 401
        assert guarded.ask(path, body, **bearer(OWNER))[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1?", "127.0.0.1/a?b=", "127.0.0.1#"])
def test_the_name_of_the_host_cannot_hide_the_path(host: str) -> None:
    """Some versions of Starlette put this header as it is into the URL of a request."""

    async def ask() -> list[int]:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await JSONResponse({})(scope, receive, send)

        transport = httpx2.ASGITransport(Guard(app, OWNER, CALLER, Allowed()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers = {"Host": host, **bearer(CALLER)}
            return [(await client.post(path, headers=headers)).status_code for path in ("/enabled", "/reload", "/rank")]

    assert asyncio.run(ask()) == [403, 403, 200]


def test_the_client_sends_the_token(guarded: Served) -> None:
    with guarded.client(token=CALLER) as client, guarded.client(token="wrong") as other:
        assert len(client.rerank(**request_of(n=10)).ids) == 5
        with pytest.raises(ServiceError, match="the token is wrong") as refused:
            other.rerank(**request_of(n=10))
        assert refused.value.status == 401
    with guarded.client() as nobody, pytest.raises(ServiceError, match="a token is needed"):
        nobody.rerank(**request_of(n=10))


def test_a_large_body_is_refused(guarded: Served) -> None:
    status, found, _ = guarded.ask("/rerank", b" " * 5000, **bearer(OWNER))
    assert (status, found["detail"]) == (413, "a request may have 4,096 bytes")


def test_pages_of_other_sites_are_refused(served: Served) -> None:
    assert served.ask("/rerank", request_of(), Origin="http://evil.example")[0] == 403
    assert served.ask("/enabled", {"enabled": False}, Sec_Fetch_Site="cross-site")[0] == 403
    assert served.ask("/rerank", request_of(), Host="evil.example")[0] == 400


def test_another_host_needs_a_token(
    call: Callable[..., int], capsys: pytest.CaptureFixture[str], shared_export: Path
) -> None:
    assert call("serve", shared_export, "--host", "0.0.0.0", "--port", 0) == 2
    assert "opens the service to others; give a token" in capsys.readouterr().err
    assert call("serve", shared_export, "--host", "0.0.0.0", "--port", 0, "--token", "short") == 2
    assert "must have at least 16 characters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--token", " "), "--token (or RECPRISM_TOKEN) is empty"),
        (("--caller-token", "a"), "caller_token needs token"),
        (("--token", "a", "--caller-token", "a"), "caller_token is the same as token"),
        (("--shadow",), "--shadow without --log"),
        (("--holdout", "5%"), "holdout and holdout_price belong together"),
        (("--log", "served", "--holdout", "5%", "--holdout-price", "0"), "holdout and log need log_users"),
        (("--log", "served", "--log-users"), "set RECPRISM_LOG_KEY"),
        (("--log", "rule/rule.json"), "is a file; name a folder"),
        (("--prices", "rule/rule.npz"), "no table of prices"),
        (("--prices", "prices.toml"), "the price of new: 7"),
    ],
    ids=str,
)
def test_wrong_options_end_with_a_sentence(
    call: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file_of().write("rule")
    Path("prices.toml").write_text("new = 7", encoding="utf-8")
    assert call("serve", "rule", "--port", 0, *words) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("served").exists()


def test_a_short_key_and_a_wrong_export_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 5 bytes; write 32 to 64"):
        Settings(log=tmp_path, log_users=True, log_key="short")
    with pytest.raises(InputError, match="holdout and log need log_users"):
        Settings(log=tmp_path, holdout=0.05, holdout_price=0.0)
    assert Settings(holdout=0.05, holdout_price=0.0).log is None, "without a log, nothing is compared"
    with pytest.raises(InputError, match="is no export of a rule"):
        create_app(tmp_path)


def test_more_requests_than_allowed_get_503() -> None:
    """The application inside waits, so that requests are in flight as long as the test wants."""

    async def ask() -> list[tuple[int, str | None]]:
        go, metrics = asyncio.Event(), Metrics()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        transport = httpx2.ASGITransport(Places(app, metrics, most=2))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            first = [asyncio.create_task(client.post("/rerank")) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert value(metrics, "in_flight") == 2
            refused = await client.post("/rerank")
            probe = asyncio.create_task(client.get("/health"))
            await asyncio.sleep(0.05)
            go.set()
            answers = [refused, *await asyncio.gather(*first, probe)]
        assert (value(metrics, "refused_total"), value(metrics, "in_flight")) == (1, 0)
        return [(it.status_code, it.headers.get("Retry-After")) for it in answers]

    assert asyncio.run(ask()) == [(503, "1"), (200, None), (200, None), (200, None)]


def test_requests_without_the_token_take_no_place(start: Start, export: Path) -> None:
    """Bodies that do not end, with a wrong token and to routes that make no list, keep nobody from a list."""
    served = start(export, "--token", OWNER, "--max-in-flight", "2")
    half = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{"
    with contextlib.ExitStack() as ends:
        for path, token in ((b"/nowhere", b"wrong"), (b"/rerank", b"wrong"), (b"/nowhere", OWNER.encode())) * 3:
            slow = ends.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            slow.sendall(half % (path, token))
            if token == b"wrong":
                assert slow.recv(12) == b"HTTP/1.1 401", "the answer does not wait for the body"
        assert served.ask("/rerank", request_of(), **bearer(OWNER))[0] == 200
        for _ in range(2):
            slow = ends.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            slow.sendall(half % (b"/rerank", OWNER.encode()))
        wait_until(lambda: served.ask("/rerank", request_of(), **bearer(OWNER))[0] == 503)
        assert [served.ask(it)[0] for it in ("/health", "/ready")] == [200, 200]
        figures = figures_in(served.ask("/metrics", **bearer(OWNER))[1])
    assert figures["recprism_in_flight"] == 2
    assert figures['recprism_requests_total{route="/rerank",status="401"}'] == 3


def test_slow_requests_do_not_pile_up(shared_export: Path) -> None:
    service, held = Service(shared_export, Settings()), threading.Event()

    def wait(*_: Any) -> Any:
        return held.wait()

    async def many() -> list[Any]:
        waiting = [asyncio.ensure_future(service.make(True, wait, {})) for _ in range(MOST_SLOW)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyError):
            await service.make(True, wait, {})
        assert await service.make(False, lambda *_: 1, {}) == 1, "others are answered"
        held.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(many()) == [True] * MOST_SLOW
    service.close()


def test_half_a_request_keeps_nobody_waiting(served: Served) -> None:
    with contextlib.closing(socket.create_connection(("127.0.0.1", served.port))) as slow:
        slow.sendall(b"POST /rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert served.ask("/rerank", request_of())[0] == 200


def test_examples_of_the_description_are_answered(served: Served) -> None:
    described = served.ask("/openapi.json")[1]
    examples = {
        path: operation["post"]["requestBody"]["content"]["application/json"]["example"]
        for path, operation in described["paths"].items()
        if "requestBody" in operation.get("post", {})
    }
    assert set(examples) == {"/rerank", "/rank", "/explain", "/steer", "/enabled", "/governor"}
    for path, example in examples.items():
        expected = 422 if path == "/governor" else 200  # this service has none
        assert served.ask(path, example)[0] == expected, path
    for path in ("/health", "/ready", "/metrics", "/rule", "/reload"):
        assert path in described["paths"]


@pytest.mark.slow
def test_answers_are_as_described_and_none_is_a_server_error(served: Served) -> None:
    """Valid and invalid requests to every route that makes lists."""
    described = schemathesis.openapi.from_dict(served.ask("/openapi.json")[1])
    seen: set[int] = set()
    with httpx2.Client(base_url=served.address) as client:
        for found in described.get_all_operations():
            operation = found.ok()
            if operation.path in ("/reload", "/enabled", "/governor"):
                continue  # the service is shared
            anything = st.one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

            @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
            @given(case=anything)
            def ask(case: Any) -> None:
                body = {"content": case.body} if isinstance(case.body, bytes) else {"json": case.body}
                given_body = {} if case.method.upper() == "GET" or type(case.body).__name__ == "NotSet" else body
                answer = client.request(case.method, case.operation.path, **given_body)
                seen.add(answer.status_code)
                assert answer.status_code < 500, (case.operation.path, case.body, answer.text)
                if answer.status_code == 200:
                    case.operation.validate_response(_as_requests(answer, case))

            ask()
    assert {200, 422} <= seen


def _as_requests(answer: httpx2.Response, case: Any) -> Any:
    from schemathesis.core.transport import Response

    headers = {name.lower(): [value] for name, value in answer.headers.items()}
    request = case.as_transport_kwargs  # only kept for messages
    return Response(answer.status_code, headers, answer.content, request, 0.0, verify=False)
