"""Checks that the studio and the service share: host names, origins, secrets, and the headers of every answer."""

from __future__ import annotations

import ipaddress
import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HARMLESS = {"GET", "HEAD", "OPTIONS"}
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str) -> list[str]:
    """Return the allowed host names: on loopback no others, which prevents DNS rebinding."""
    return ["127.0.0.1", "localhost", "[::1]"] if is_loopback(host) else ["*"]


class SecurityHeaders:
    """Middleware that adds security headers to every answer.

    This and the guards are plain ASGI: FastAPI's middleware takes longer than the rest of an answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def which(given: str, expected: tuple[str, ...]) -> int | None:
    """Return the number of the secret that was given; all are compared, so that the time tells nothing."""
    same = [secrets.compare_digest(given.encode(), it.encode()) for it in expected]
    return same.index(True) if any(same) else None


def of_another_site(request: Request) -> Response | None:
    """Return the refusal of a request that may change something and comes from a page of another site.

    Every browser sends Origin or Sec-Fetch-Site with such a request; programs send neither. Where there is a
    Sec-Fetch-Site, it decides, because a proxy may change Host.
    """
    if request.method in HARMLESS:
        return None
    site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
    if site in ("same-origin", "none"):
        return None
    if site is None and (origin is None or origin.partition("://")[2] == request.headers.get("host")):
        return None
    return JSONResponse({"detail": "this request comes from a page of another site"}, status_code=403)
