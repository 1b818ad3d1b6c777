"""What a request passes before it is answered: the meter, the check of the token, and the places in flight."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recprism.service._metrics import Metrics
from recprism.service.limits import Allowed, Bucket, address, too_many
from recprism.service.safety import of_another_site, which

STARTED = "recprism.started"
FREE = {"/health", "/ready"}
"""Probes of a load balancer carry no token, and learn nothing."""
OF_THE_OWNER = {"/reload", "/enabled"}
SWITCH = ("/governor", "POST")
"""Of the owner, too; others may read the state."""
LISTS = {"/rerank", "/rank", "/explain", "/steer"}
ROUTES = LISTS | OF_THE_OWNER | FREE | {"/metrics", "/rule", "/governor", "/openapi.json"}
GONE = 499
"""The status of a request whose sender has gone before the answer."""


class Meter:
    """Middleware that measures every request, also those that are refused.

    Args:
        app: The application.
        metrics: Where it counts.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = scope[STARTED] = time.perf_counter()
        status = GONE

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            route = scope["path"] if scope["path"] in ROUTES else "other"
            self.metrics.requests(route, str(status)).inc()
            self.metrics.seconds(route).observe(time.perf_counter() - started)


class Places:
    """Middleware that refuses lists where too many requests for lists are in flight.

    It is inside the guard, so a request without the right token takes no place. It is outside the limits, so a request
    takes its place before its body is read.

    Args:
        app: The application.
        metrics: Where it counts.
        most: Requests for lists in flight.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, most: int) -> None:
        self.app, self.metrics, self.most, self.now = app, metrics, most, 0
        metrics.in_flight.set_function(lambda: self.now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in LISTS:
            await self.app(scope, receive, send)
            return
        if self.now >= self.most:
            self.metrics.refused.inc()
            await overloaded("too many requests are in flight")(scope, receive, send)
            return
        self.now += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.now -= 1


class Guard:
    """Middleware that refuses pages of other sites, and checks the bearer token, if there is one.

    With the caller's token, a request cannot change what others get. Wrong tokens are limited for each address. The
    right token is always accepted: behind a proxy all callers share one address, and one of them must not lock out
    the others. Guessing is therefore limited by the length of a token, which ``Settings`` checks, and not by time.

    Args:
        app: The application.
        token: The owner's token; None for no token.
        caller_token: The token of callers.
        allowed: How many wrong tokens an address may send.
    """

    def __init__(self, app: ASGIApp, token: str | None, caller_token: str | None, allowed: Allowed) -> None:
        self.app = app
        self.tokens = tuple(it for it in (token, caller_token) if it is not None)
        self.wrong = Bucket(allowed.wrong_per_second, allowed.wrong_at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refused = of_another_site(request) or (self._refusal(request) if self.tokens else None)
        await (refused or self.app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        known = which(given, self.tokens)
        if known is None:
            if wait := self.wrong.wait(address(request.scope)):
                return too_many("too many requests without the right token from this address", wait)
            sentence = "the token is wrong" if given else "a token is needed"
            sentence += "; send the header Authorization: Bearer TOKEN"
            return JSONResponse({"detail": sentence}, 401, headers={"WWW-Authenticate": "Bearer"})
        changes = request.scope["path"] in OF_THE_OWNER or (request.scope["path"], request.method) == SWITCH
        if known > 0 and changes:
            return JSONResponse({"detail": "this token gets lists and changes nothing; use the owner's"}, 403)
        return None


def overloaded(what: str) -> JSONResponse:
    """Return the answer to a request that should come again."""
    return JSONResponse({"detail": f"{what}; try again in 1 s"}, 503, headers={"Retry-After": "1"})
