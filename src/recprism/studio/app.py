"""The application: the page, the questions, and who may ask them."""

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

from recprism._version import __version__
from recprism.errors import InputError
from recprism.studio.limits import Limits, too_many
from recprism.studio.opened import NotReadyError
from recprism.studio.questions import questions
from recprism.studio.safety import Guard, allowed_hosts
from recprism.studio.studio import BusyError, Studio

HERE = Path(str(files("recprism.studio").joinpath("static")))
CHARTS = Path(str(files("recprism.report").joinpath("static")))
pages = APIRouter(include_in_schema=False)  # not made anew for each studio: FastAPI remembers the functions it has seen


def create_app(
    directories: Sequence[Path], *, result: str | None = None, host: str = "127.0.0.1", token: str | None = None
) -> FastAPI:
    """The studio over some run directories; they are opened in the background, one after the other.

    result: the name of the result to show of each; the unnamed one if None
    """
    studio = Studio(directories, result)

    @asynccontextmanager
    async def until_the_end(_app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

    app = FastAPI(
        lifespan=until_the_end,
        title="recprism studio",
        version=__version__,
        summary="What diversity would cost a recommender, who would pay, and which factors drive it.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(host))
    app.add_middleware(Limits)
    app.add_middleware(Guard, token=token)
    app.add_exception_handler(InputError, _not_found)
    app.add_exception_handler(NotReadyError, _not_ready)
    app.add_exception_handler(BusyError, _busy)
    app.state.studio = studio
    app.include_router(questions)
    app.include_router(pages)
    app.mount("/static", StaticFiles(directory=HERE))
    app.mount("/charts", StaticFiles(directory=CHARTS))
    return app


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
    return too_many("many questions that take time are waiting", 2)
