"""The application: the page, the JSON interface and the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse

from recprism.common.version import __version__
from recprism.errors import InputError
from recprism.service.limits import DEFAULT, Allowed, Limits, too_many
from recprism.service.safety import SecurityHeaders, allowed_hosts
from recprism.studio.opened import BusyError, NotReadyError
from recprism.studio.routes import others, routes
from recprism.studio.safety import Guard
from recprism.studio.studio import Studio

HERE = Path(str(files("recprism.studio").joinpath("static")))
CHARTS = Path(str(files("recprism.report").joinpath("static")))
pages = APIRouter(include_in_schema=False)  # one for all studios, because FastAPI never forgets a function


def create_app(
    directories: Sequence[Path],
    *,
    result: str | None = None,
    served: tuple[Path, Path] | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    reader_token: str | None = None,
    allowed: Allowed = DEFAULT,
) -> FastAPI:
    """Create the application of a studio; runs are opened in the background, one after the other.

    Args:
        directories: Run directories.
        result: Name of the result to show of each run; None for all of them.
        served: The folder of an exported rule, and the log of its service, for the page of the monitor.
        host: The address to which the server binds.
        token: A token that every request must have; None for no token.
        reader_token: A token of visitors who may look, and start nothing; needs ``token``.
        allowed: Limits on requests.

    Raises:
        InputError: If ``reader_token`` is given without ``token``, or is the same.
    """
    _require_two_tokens(token, reader_token)
    studio = Studio(directories, result, served)

    @asynccontextmanager
    async def until_the_end(_app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(
        lifespan=until_the_end,
        title="recprism studio",
        version=__version__,
        summary="What diversity changes for each user, what it costs, who pays, and why these items.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(host))
    app.add_middleware(Guard, token=token, reader_token=reader_token, allowed=allowed)
    app.add_middleware(Limits, allowed=allowed)  # outside the guard, so that refused requests count, too
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(InputError, _not_found)
    app.add_exception_handler(NotReadyError, _not_ready)
    app.add_exception_handler(BusyError, _busy)
    app.state.studio = studio
    app.include_router(routes)
    app.include_router(others)
    app.include_router(pages)
    app.mount("/static", StaticFiles(directory=HERE))
    app.mount("/charts", StaticFiles(directory=CHARTS))
    return app


def _require_two_tokens(token: str | None, reader_token: str | None) -> None:
    """Refuse tokens with which readers would be owners."""
    if reader_token is not None and not token:
        raise InputError("reader_token needs token: without it, readers could start work")
    if reader_token is not None and reader_token == token:
        raise InputError("reader_token is the same as token; write another one")


@pages.get("/")
async def page() -> FileResponse:
    return FileResponse(HERE / "index.html")


@pages.get("/api")
async def api_page() -> FileResponse:
    return FileResponse(HERE / "api.html")


async def _not_found(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=404)


async def _not_ready(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=409)


async def _busy(_request: Request, _error: Exception) -> JSONResponse:
    return too_many("many slow requests are waiting", 2)
