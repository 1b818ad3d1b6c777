"""The routes of the JSON interface. Other modules compute the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from recprism.studio import downloads, live, schemas
from recprism.studio.board import FURTHEST
from recprism.studio.opened import OpenedRun
from recprism.studio.studio import Studio
from recprism.studio.view import View

routes = APIRouter(
    prefix="/api/runs",
    responses={
        404: {"model": schemas.Problem, "description": "No such run, user, item or path."},
        409: {"model": schemas.Problem, "description": "The run is not ready to answer."},
        429: {
            "model": schemas.Problem,
            "description": "Too many requests; Retry-After says when to try again.",
        },
    },
)


async def _studio(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


TheStudio = Annotated[Studio, Depends(_studio)]


async def _opened(run: str, studio: TheStudio) -> OpenedRun:
    return studio.opened(run)


Opened = Annotated[OpenedRun, Depends(_opened)]
User = Annotated[str, Query(description="A user id.", max_length=200)]


@dataclass(frozen=True)
class Place:
    """A point of a path, given by a budget or by its number."""

    view: View
    goal: str
    point: int


async def _place(
    one: Opened,
    goal: Annotated[str, Query(description="The goal of the path.", max_length=100)] = "subtopic_coverage",
    budget: Annotated[float, Query(description="Share of NDCG@10 that may be lost: 0.01 is 1 %.", ge=0, le=1)] = 0.01,
    certified: Annotated[bool, Query(description="Only points whose loss is certified to keep the budget.")] = True,
    point: Annotated[int | None, Query(description="A point by its number, instead of a budget.", ge=0)] = None,
) -> Place:
    view = one.view()
    return Place(view, goal, view.point(goal, budget, certified, point))


At = Annotated[Place, Depends(_place)]


@routes.get("", tags=["runs"])
async def list_runs(studio: TheStudio) -> list[schemas.RunState]:
    """List the runs of the studio."""
    for one in studio.runs.values():
        one.look()
    return [one.state() for one in studio.runs.values()]


@routes.get("/{run}", tags=["runs"])
async def summary(one: Opened) -> schemas.RunSummary:
    """Return the state of a run, its size, its goals, and the effect of its own vectors."""
    one.look()
    return one.summary()


@routes.get("/{run}/events", tags=["runs"], response_class=StreamingResponse)
async def events(one: Opened, request: Request) -> StreamingResponse:
    """Stream the events of the run as server-sent events `happened` and `standing`, until the client disconnects."""
    stream = live.follow(one.run, request.is_disconnected)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@routes.get("/{run}/paths/{goal}", tags=["paths"])
async def path(one: Opened, goal: str) -> schemas.PathAnswer:
    """Return the path from the current lists to more diverse ones: gain and cost of each point."""
    return one.view().path_answer(goal)


@routes.post("/{run}/paths/{goal}", tags=["paths"], status_code=202)
async def want_path(one: Opened, goal: str) -> schemas.RunState:
    """Compute the path towards another goal in the background; the state of the run shows the progress."""
    possible = one.view().possible_goals
    if goal not in possible:
        raise HTTPException(404, f"there is no path towards {goal!r}; goals are {', '.join(possible)}")
    one.want_path(goal)
    return one.state()


@routes.get("/{run}/payers", tags=["paths"])
async def payers(at: At, studio: TheStudio) -> schemas.PayersAnswer:
    """Return the change of NDCG@10 by groups of users within a budget, and who pays more than the others."""
    return await studio.ranked(lambda: at.view.payers(at.goal, at.point))


@routes.get("/{run}/lists", tags=["lists"])
async def lists(at: At, user: User, studio: TheStudio) -> schemas.ListsAnswer:
    """Return a user's current list and the list within a budget, with the reason of each new item."""
    return await studio.ranked(lambda: at.view.lists(user, at.goal, at.point))


@routes.get("/{run}/served", tags=["lists"])
async def served(one: Opened, user: User, studio: TheStudio) -> schemas.ListsAnswer:
    """Return a user's list of the trained model and the list that the run serves, with the reason of each new item."""
    view = one.view()
    return await studio.ranked(lambda: view.served_lists(user))


@routes.get("/{run}/search", tags=["lists"])
async def search(one: Opened, q: Annotated[str, Query(max_length=200)]) -> schemas.SearchHits:
    """Find users by the beginning of their id, and items by words of their title."""
    return one.view().search(q)


@routes.get("/{run}/items", tags=["lists"])
async def item(at: At, item: Annotated[str, Query(description="An item id.", max_length=200)]) -> schemas.ItemAnswer:
    """Count the lists with an item, now and within a budget."""
    return at.view.item_answer(item, at.goal, at.point)


@routes.get("/{run}/features", tags=["factors"])
async def features(one: Opened, studio: TheStudio) -> schemas.FeaturesAnswer:
    """Return directions and factors that players found, largest first, or the dials of a rule.

    The first request for factors takes some seconds.
    """
    return await studio.ranked(lambda: one.board().answer())


@routes.get("/{run}/turn", tags=["factors"])
async def turn(
    one: Opened,
    studio: TheStudio,
    user: User,
    number: Annotated[int, Query(description="Number of the feature.", ge=0)],
    scale: Annotated[float, Query(description="1 leaves it as found, 0 erases it.", ge=-FURTHEST, le=FURTHEST)],
) -> schemas.TurnAnswer:
    """Scale one direction or factor, and rank all users again."""
    return await studio.ranked(lambda: one.board().turn(number, scale, user))


@routes.get("/{run}/download/lists", tags=["downloads"], response_class=FileResponse)
async def download_lists(at: At, studio: TheStudio) -> Response:
    """Download all users' lists within a budget: CSV with user_id, item_id, rank, score."""
    return await studio.ranked(lambda: downloads.lists_file(at.view, at.goal, at.point))


@routes.get("/{run}/download/vectors", tags=["downloads"], response_class=FileResponse)
async def download_vectors(at: At, studio: TheStudio) -> Response:
    """Download vectors whose dot product gives these lists: a zip of factors.safetensors and factors.json."""
    return await studio.ranked(lambda: downloads.vectors_file(at.view, at.goal, at.point))


@routes.get("/{run}/download/report", tags=["downloads"], response_class=FileResponse)
async def download_report(one: Opened) -> Response:
    """Download the page that `recprism report` wrote for the run."""
    if not downloads.has_report(one.run):
        raise HTTPException(404, "there is no complete report.html in this run; `recprism report` writes one")
    return downloads.report_file(one.run)
