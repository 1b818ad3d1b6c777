"""Who may look at a studio, and who may change something."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from recprism.service.limits import Allowed, Bucket, address, too_many
from recprism.service.safety import HARMLESS, of_another_site, which

COOKIE = "recprism-token"
READER = "recprism.reader"


def is_reader(request: Request) -> bool:
    """Whether a request came with the token of a reader."""
    return bool(request.scope.get(READER, False))


class Guard:
    """Middleware that refuses changes asked for by other sites, and checks the token, if there is one.

    A second token is for readers: with it, requests that may change something are refused.

    A browser sends the token once in the link, and afterwards a cookie. Programs send it as a bearer token.

    Only failures count towards the limit on wrong tokens. Where an address has used up its limit, the right token is
    also refused: otherwise a guess that is right would show at any rate. Behind a proxy all clients share one address,
    so the guesses of one client could lock out the others. The cookie prevents this: it is a random number of this
    process, too long to guess, so it is never limited, and a browser that is logged in stays logged in.
    """

    def __init__(self, app: ASGIApp, token: str | None, reader_token: str | None, allowed: Allowed) -> None:
        self.app = app
        self.tokens = tuple(it for it in (token, reader_token) if it is not None)  # the reader's is the second
        self.sessions = tuple(secrets.token_urlsafe(32) for _ in self.tokens)
        self.wrong = Bucket(allowed.wrong_per_second, allowed.wrong_at_once)
        self.without = Bucket(allowed.wrong_per_second, allowed.wrong_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        answer = of_another_site(request) or (self._instead(request) if self.tokens else None)
        await (answer or self.app)(scope, receive, send)

    def _instead(self, request: Request) -> Response | None:
        """Return the answer to a request without a token, to the link with one, or to a reader's change."""
        offered = request.query_params.get("token")
        cookie = f"{COOKIE}-{request.url.port or 80}"  # browsers share cookies among the ports of a host
        known = which(request.cookies.get(cookie, ""), self.sessions) if offered is None else None
        if known is not None:
            return _as_visitor(request, known)
        who, bearer = address(request.scope), request.headers.get("authorization", "").removeprefix("Bearer ")
        # Tabs of a studio that has ended offer no token: they must not use up the guesses of their owner's link.
        counted = self.wrong if offered or bearer else self.without
        if wait := counted.look(who):
            return too_many("too many requests without the right token from this address", wait)
        known = which(offered or bearer, self.tokens)
        if known is None:
            counted.wait(who)
            return JSONResponse(
                {"detail": "a token is needed; it is part of the link that was printed"}, status_code=401
            )
        if offered is None or request.url.path != "/":
            return _as_visitor(request, known)
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(cookie, self.sessions[known], httponly=True, samesite="strict")
        return response


def _as_visitor(request: Request, known: int) -> Response | None:
    """Note who asks; return the refusal of a reader's change."""
    request.scope[READER] = known > 0
    if known == 0 or request.method in HARMLESS:
        return None
    return JSONResponse({"detail": "this link may look and not change anything; ask its owner"}, status_code=403)
