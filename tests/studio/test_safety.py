"""Access control and security headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from recprism.errors import InputError
from recprism.service.safety import is_loopback
from recprism.studio.app import create_app


@pytest.mark.parametrize("path", ["/", "/api", "/api/runs", "/static/studio.js", "/charts/vega.min.js", "/nowhere"])
def test_every_answer_carries_the_strict_policy(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_pages_hold_no_script_or_style_of_their_own(client: TestClient) -> None:
    for path in ("/", "/api"):
        text = client.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text
        assert "http://" not in text
        assert "https://" not in text


def test_another_host_name_is_refused(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"host": "evil.example"}).status_code == 400


UPWARDS = ("..", "%2e%2e", "%252e%252e", "..%2f", "..%5c", "%c0%ae%c0%ae", "....", ".%00.", "..;")


@pytest.mark.parametrize("folder", ["static", "charts", "api/runs", "api/runs/plain/download"])
@pytest.mark.parametrize("step", UPWARDS)
@pytest.mark.parametrize("target", ["app.py", "etc/passwd", "plain/config.toml", "config.toml"])
def test_no_path_leads_out_of_the_folders(client: TestClient, folder: str, step: str, target: str) -> None:
    for steps in (1, 2, 6):
        answer = client.get(f"/{folder}/{'/'.join([step] * steps)}/{target}")
        assert answer.status_code in (400, 404, 405, 414)
        assert "root:" not in answer.text
        assert "[data]" not in answer.text


@pytest.mark.parametrize("token", [None, "", "look"])
def test_a_reader_never_becomes_an_owner(shelf: Path, token: str | None) -> None:
    with pytest.raises(InputError, match="reader_token"):
        create_app([shelf / "empty"], token=token, reader_token="look")


def test_with_a_token_requests_without_it_are_refused(shelf: Path) -> None:
    with TestClient(create_app([shelf / "empty"], host="0.0.0.0", token="secret"), base_url="http://studio") as client:
        for path in ("/", "/api/runs", "/static/studio.js", "/api/openapi.json"):
            assert client.get(path).status_code == 401
        assert client.get("/api/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/api/runs", headers={"authorization": "Bearer secret"}).status_code == 200
        assert client.get("/?token=wrong").status_code == 401
        arrived = client.get("/?token=secret", follow_redirects=False)
        assert arrived.status_code == 303
        assert "httponly" in arrived.headers["set-cookie"].lower()
        assert client.get("/api/runs").status_code == 200, "afterwards the cookie is enough"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x.org", False)],
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_interface_is_described(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    for path, methods in described["paths"].items():
        for one in methods.values():
            assert one["description"], path
    assert "/api/runs/{run}/user" in described["paths"]


def test_a_reader_looks_and_changes_nothing(shelf: Path) -> None:
    app = create_app([shelf / "empty"], host="0.0.0.0", token="secret", reader_token="look")
    wanted = "/api/runs/empty/paths/subtopic_coverage"
    with TestClient(app, base_url="http://studio") as client:
        assert client.get("/?token=look", follow_redirects=False).status_code == 303
        assert client.get("/api/visitor").json() == {"may_change": False, "has_log": False}
        assert client.get("/api/runs").status_code == 200
        assert client.post(wanted).status_code == 403
        owner = {"authorization": "Bearer secret"}
        client.cookies.clear()
        assert client.get("/api/visitor", headers=owner).json() == {"may_change": True, "has_log": False}
        assert client.post(wanted, headers=owner).status_code == 409, "it is allowed, and the run is not ready"
        assert client.post(wanted, headers={"authorization": "Bearer look"}).status_code == 403
        assert client.get("/api/runs", headers={"authorization": "Bearer lo"}).status_code == 401
