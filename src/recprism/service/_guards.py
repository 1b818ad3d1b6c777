"""What a request passes before it is answered: the meter, and the check of the token."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recprism.service._limits import Allowed, Bucket, address, too_many
from recprism.service._metrics import Metrics
from recprism.service._safety import of_another_site, which

STARTED = "recprism.started"
FREE = {"/health", "/ready"}
"""Probes of a load balancer carry no token, and learn nothing."""
OF_THE_OWNER = {"/reload", "/enabled"}
LISTS = {"/rerank", "/rank", "/explain", "/steer"}
ROUTES = LISTS | OF_THE_OWNER | FREE | {"/metrics", "/rule", "/openapi.json"}
GONE = 499
"""The status of a request whose sender has gone before the answer."""


class Meter:
    """Middleware that measures every request, and refuses lists where too many requests are in flight.

    Args:
        app: The application.
        metrics: Where it counts.
        most: Requests in flight.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, most: int) -> None:
        self.app, self.metrics, self.most, self.now = app, metrics, most, 0

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

        path = scope["path"]
        answer: ASGIApp = self.app
        if self.now >= self.most and path in LISTS:
            self.metrics.refused.add()
            answer = overloaded("too many requests are in flight")
        self.now += 1
        self.metrics.in_flight.set(self.now)
        try:
            await answer(scope, receive, send_and_note)
        finally:
            self.now -= 1
            self.metrics.in_flight.set(self.now)
            route = path if path in ROUTES else "other"
            self.metrics.requests.add(1.0, route, str(status))
            self.metrics.seconds.add(time.perf_counter() - started, route)


class Guard:
    """Middleware that refuses pages of other sites, and checks the bearer token, if there is one.

    With the caller's token, a request cannot change what others get. As in the studio, only failures count towards
    the limit on wrong tokens, and an address that has used it up is refused with the right token, too.

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
        who = address(request.scope)
        if wait := self.wrong.look(who):
            return too_many("too many requests without the right token from this address", wait)
        known = which(request.headers.get("authorization", "").removeprefix("Bearer "), self.tokens)
        if known is None:
            self.wrong.wait(who)
            sentence = "a token is needed; send the header Authorization: Bearer TOKEN"
            return JSONResponse({"detail": sentence}, 401, headers={"WWW-Authenticate": "Bearer"})
        if known > 0 and request.url.path in OF_THE_OWNER:
            return JSONResponse({"detail": "this token gets lists and changes nothing; use the owner's"}, 403)
        return None


def overloaded(what: str) -> JSONResponse:
    """Return the answer to a request that should come again."""
    return JSONResponse({"detail": f"{what}; try again in 1 s"}, 503, headers={"Retry-After": "1"})
