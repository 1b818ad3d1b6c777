"""The application: its routes and its middleware."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from recprism.common.version import __version__
from recprism.errors import InputError, StorageError
from recprism.service import _lists
from recprism.service._bodies import (
    Common,
    EnabledBody,
    ExplainBody,
    RankBody,
    RerankBody,
    ServedBody,
    SteerBody,
    read_body,
    require_within,
)
from recprism.service._guards import STARTED, Guard, Meter, Places, overloaded
from recprism.service._metrics import CONTENT_TYPE
from recprism.service._openapi import describe, documented
from recprism.service._service import Service, TooManyError
from recprism.service._workers import LostWorkerError
from recprism.service.answers import Answer, ExplainedAnswer, SteeredAnswer
from recprism.service.limits import Limits
from recprism.service.safety import SecurityHeaders, allowed_hosts
from recprism.service.settings import Settings

REQUEST_ID = "X-Request-Id"
PLAIN_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
LARGE_CATALOGUE = 50_000
"""A search by vector over more items is made in a thread."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListRoute:
    """A route that makes lists.

    Attributes:
        path: Its path.
        body: What requests contain.
        answer: What answers contain.
        make: Makes the list.
    """

    path: str
    body: type[Common]
    answer: type[Answer]
    make: Callable[..., _lists.Made]


LIST_ROUTES = (
    ListRoute("/rerank", RerankBody, Answer, _lists.serve),
    ListRoute("/rank", RankBody, Answer, _lists.serve),
    ListRoute("/explain", ExplainBody, ExplainedAnswer, _lists.explain),
    ListRoute("/steer", SteerBody, SteeredAnswer, _lists.steer),
)


def create_app(folder: str | Path, settings: Settings | None = None) -> FastAPI:
    """Create the application of a service. The rule is loaded and compiled before this function returns.

    Args:
        folder: An export of a rule.
        settings: What the service does with requests.

    Raises:
        InputError: If the export cannot be used.
    """
    settings = settings or Settings()
    service = Service(Path(folder), settings)

    @asynccontextmanager
    async def until_the_end(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        service.close()

    app = FastAPI(
        lifespan=until_the_end,
        title="recprism service",
        version=__version__,
        summary="Diverse lists with reasons, from candidates and scores.",
        openapi_url=None,  # it has examples of the loaded rule, so it is made for each request
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    _add_middleware(app, service)
    _add_lists(app, service)
    _add_state(app, service)
    _add_changes(app, service)
    return app


def _add_middleware(app: FastAPI, service: Service) -> None:
    """Add the innermost first: a request without the right token is refused before its body is read."""
    settings = service.settings
    app.add_middleware(Limits, allowed=settings.allowed)
    app.add_middleware(Places, metrics=service.metrics, most=settings.max_in_flight)
    app.add_middleware(Guard, token=settings.token, caller_token=settings.caller_token, allowed=settings.allowed)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(settings.host))
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Meter, metrics=service.metrics)


class _Lists:
    """Answers a route for lists as plain ASGI: FastAPI's own way takes half a millisecond, as long as many lists."""

    def __init__(self, service: Service, route: ListRoute) -> None:
        self.service, self.route = service, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await _guarded(request, lambda: _list(self.service, self.route, request))
        await answer(scope, receive, send)


def _add_lists(app: FastAPI, service: Service) -> None:
    for route in LIST_ROUTES:
        app.router.routes.append(Route(route.path, _Lists(service, route), methods=["POST"]))


async def _list(service: Service, route: ListRoute, request: Request) -> Response:
    body = read_body(route.body, await request.body())
    require_within(body, service.settings)
    number, loaded = _request_id(request), service.loaded
    options, draw = service.options_of(body, number)
    slow = body.is_slow or ("user_vector" in options and len(loaded.rule.file.item_ids) > LARGE_CATALOGUE)
    in_shadow = service.settings.shadow and isinstance(body, ServedBody)
    made = await service.make(slow, _lists.serve_in_shadow if in_shadow else route.make, options)
    if isinstance(body, ServedBody):  # users see the list, so it is counted and logged
        service.record(loaded, made, body, request=number, draw=draw, started=request.scope[STARTED])
    content = orjson.dumps({"request": number, "holdout": draw.held})[:-1] + b"," + made.content[1:]
    return Response(content, media_type="application/json", headers={REQUEST_ID: number})


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/health", summary="Whether the process lives")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", summary="Whether the service takes requests", responses={503: {"description": "It ends."}})
    async def ready() -> JSONResponse:
        return JSONResponse({"ready": not service.stopping}, 503 if service.stopping else 200)

    @app.get("/metrics", summary="Figures in the text format of Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/rule", summary="What is loaded")
    async def rule() -> dict[str, Any]:
        settings = service.settings
        held = {"holdout": float(settings.holdout), "holdout_price": settings.holdout_price}
        state = {"enabled": service.enabled, "shadow": settings.shadow, "problem": service.problem}
        return {**service.loaded.about(), **state, **held}

    none: dict[int | str, dict[str, Any]] = {404: {"description": "The service has no governor."}}

    @app.get("/governor", summary="The price of the governor, and its evidence", response_model=None, responses=none)
    async def governor() -> JSONResponse:
        if service.governor is None:
            return JSONResponse({"detail": "this service has no governor (--governor)"}, 404)
        return JSONResponse(service.governor.to_dict())

    made: dict[str, Any] = {}

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        loaded = service.loaded
        if made.get("of") is not loaded:
            routes = [(it.path, it.body, it.answer) for it in LIST_ROUTES]
            made.update(of=loaded, content=await asyncio.to_thread(describe, app, loaded, routes))
        return JSONResponse(made["content"])


def _add_changes(app: FastAPI, service: Service) -> None:
    @app.post("/reload", summary="Load the export again (owner)", response_model=None, responses=_PROBLEMS)
    async def reload() -> JSONResponse:
        problem = await service.reload()
        if problem:
            return JSONResponse({"detail": problem}, 422)
        return JSONResponse({"fingerprint": service.loaded.fingerprint})

    async def enabled(request: Request) -> Response:
        async def switch() -> Response:
            service.switch(read_body(EnabledBody, await request.body()).enabled)
            return JSONResponse({"enabled": service.enabled})

        return await _guarded(request, switch)

    async def governed(request: Request) -> Response:
        async def switch() -> Response:
            if service.governor is None:
                raise InputError("this service has no governor (--governor)")
            service.governor.switch(read_body(EnabledBody, await request.body()).enabled)
            return JSONResponse(service.governor.to_dict())

        return await _guarded(request, switch)

    about = documented(EnabledBody, None)
    summary = "Off: all requests have the first price (owner)"
    app.add_api_route("/governor", governed, methods=["POST"], response_model=None, summary=summary, **about)
    app.add_api_route(
        "/enabled", enabled, methods=["POST"], response_model=None, summary="Kill switch (owner)", **about
    )


_PROBLEMS: dict[int | str, dict[str, Any]] = {422: {"description": "The export cannot be used; the old one stays."}}


async def _guarded(request: Request, answer: Callable[[], Any]) -> Response:
    """Turn errors into answers. Nothing of the request gets into the log of errors."""
    try:
        found: Response = await answer()
        return found
    except InputError as problem:
        return JSONResponse({"detail": str(problem)}, 422)
    except StorageError as problem:
        return JSONResponse({"detail": str(problem)}, 507)
    except TooManyError:
        return overloaded("many slow requests are waiting")
    except LostWorkerError:
        return overloaded("the processes that make lists have ended")
    except Exception as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        path, kind, file = request.scope["path"], type(problem).__name__, Path(where.filename).name
        log.error("%s: %s in %s:%d", path, kind, file, where.lineno)
        return JSONResponse({"detail": "the service failed; its log says where"}, 500)


def _request_id(request: Request) -> str:
    """Return the id that the caller gave, so that a repeated request can be recognised, or a new one.

    Raises:
        InputError: If it is no plain id.
    """
    given = request.headers.get(REQUEST_ID)
    if given is None:
        return secrets.token_hex(16)
    if not PLAIN_ID.fullmatch(given):
        raise InputError(f"{REQUEST_ID} must have 1 to 128 letters, digits or . _ : + / = -")
    return given
