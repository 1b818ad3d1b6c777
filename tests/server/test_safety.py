"""Who may ask, and what a browser may do with the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from recprism.server import create_app
from recprism.server.safety import is_loopback


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


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/charts/..%2f..%2fapp.py", "/static//etc/passwd"]
)
def test_no_path_leads_out_of_the_folders(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (400, 404, 405)


def test_with_a_token_nothing_is_answered_without_it(shelf: Path) -> None:
    with TestClient(create_app([shelf / "empty"], host="0.0.0.0", token="secret"), base_url="http://studio") as client:
        for path in ("/", "/api/runs", "/static/studio.js", "/api/openapi.json"):
            assert client.get(path).status_code == 401
        assert client.get("/api/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/api/runs", headers={"authorization": "Bearer secret"}).status_code == 200
        assert client.get("/?token=wrong").status_code == 401
        arrived = client.get("/?token=secret", follow_redirects=False)
        assert arrived.status_code == 303
        assert "httponly" in arrived.headers["set-cookie"].lower()
        assert client.get("/api/runs").status_code == 200, "the cookie is enough from then on"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x.org", False)],
)
def test_what_is_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_interface_is_described(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    for path, methods in described["paths"].items():
        for one in methods.values():
            assert one["description"], path
    assert "/api/runs/{run}/lists" in described["paths"]
