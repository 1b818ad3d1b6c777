"""Access control, and the security headers of every answer."""

from __future__ import annotations

import ipaddress
import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "recprism-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
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


class Guard:
    """Middleware that adds security headers to every answer and checks the token, if there is one.

    A browser sends the token once in the link, and afterwards in a cookie. Programs send it as a bearer token. This is
    plain ASGI, because FastAPI's middleware takes longer than the rest of an answer.
    """

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        answer = self.app if self.token is None else self._instead(Request(scope), self.token) or self.app
        await answer(scope, receive, send_with_headers)

    @staticmethod
    def _instead(request: Request, token: str) -> Response | None:
        """Return the answer to a request without the token, or to the link with the token."""
        offered = request.query_params.get("token")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = offered or bearer or request.cookies.get(COOKIE, "")
        if not secrets.compare_digest(given.encode(), token.encode()):
            return JSONResponse(
                {"detail": "a token is needed; it is part of the link that was printed"}, status_code=401
            )
        if offered is None or request.url.path != "/":
            return None
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response
