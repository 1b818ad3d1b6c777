"""Who may ask, and what a browser may do with the answers."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.responses import JSONResponse, RedirectResponse

COOKIE = "recprism-token"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Next = Callable[[Request], Awaitable[Response]]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str) -> list[str]:
    """Names a request may address us by: on loopback no other, so that a page elsewhere cannot reach us by DNS."""
    return ["127.0.0.1", "localhost", "[::1]", "testserver"] if is_loopback(host) else ["*"]


class Guard:
    """Puts the headers on every answer, and asks for the token where there is one.

    A browser brings the token once in the link and has it in a cookie afterwards; programs send it as a bearer token.
    """

    def __init__(self, token: str | None) -> None:
        self.token = token

    async def __call__(self, request: Request, call_next: Next) -> Response:
        offered = request.query_params.get("token")
        if self.token is not None and not self._admits(request, offered):
            response: Response = JSONResponse({"detail": "a token is needed; it stands in the link"}, status_code=401)
        elif self.token is not None and offered is not None and request.url.path == "/":
            response = RedirectResponse("/", status_code=303)
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
        else:
            response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _admits(self, request: Request, offered: str | None) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = offered or bearer or request.cookies.get(COOKIE, "")
        return secrets.compare_digest(given.encode(), (self.token or "").encode())
