"""The routes of the JSON interface. Other modules compute the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from recprism.rule.goal import Goal
from recprism.studio import commands, compare, downloads, items, live, people, schemas
from recprism.studio.opened import OpenedRun
from recprism.studio.safety import is_reader
from recprism.studio.studio import Studio
from recprism.studio.view import DEFAULT_BUDGET, Change, View

routes = APIRouter(
    prefix="/api/runs",
    responses={
        404: {"model": schemas.Refusal, "description": "No such run, user, item or path."},
        409: {"model": schemas.Refusal, "description": "The run is not ready to answer."},
        429: {
            "model": schemas.Refusal,
            "description": "Too many requests; Retry-After says when to try again.",
        },
    },
)
others = APIRouter(prefix="/api", responses=routes.responses)


async def _studio(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


TheStudio = Annotated[Studio, Depends(_studio)]


async def _opened(run: str, studio: TheStudio) -> OpenedRun:
    return studio.opened(run)


Opened = Annotated[OpenedRun, Depends(_opened)]
User = Annotated[str, Query(description="A user id.", max_length=200)]
ItemId = Annotated[str, Query(description="An item id.", max_length=200)]
GoalWords = Annotated[str, Path(description="A goal, several joined by +, or sc=2,ilad=1.", max_length=200)]
Budget = Annotated[float, Query(description="Share of NDCG@10 that may be lost: 0.01 is 1 %.", ge=0, le=1)]


@dataclass(frozen=True)
class Shown:
    """A run, and the change that a page shows.

    Attributes:
        view: The run.
        change: The change.
        budget: What certified the stop; None if it was chosen in another way.
        live: Whether a user's lists are live ones; else the judged ones.
    """

    view: View
    change: Change
    budget: float | None
    live: bool


async def _shown(
    one: Opened,
    goal: Annotated[
        str | None, Query(description="The goal of a path; without one, the run's result.", max_length=200)
    ] = None,
    budget: Budget = DEFAULT_BUDGET,
    certified: Annotated[bool, Query(description="Only points whose loss is certified to keep the budget.")] = True,
    point: Annotated[int | None, Query(description="A point by its number, instead of a budget.", ge=0)] = None,
    judged: Annotated[
        bool, Query(description="Show lists for the history before the held-out part, instead of live ones.")
    ] = False,
) -> Shown:
    view = one.view()
    change = view.change(None if goal is None else Goal.parse(goal), budget, certified, point)
    return Shown(view, change, budget if certified and point is None else None, not judged)


At = Annotated[Shown, Depends(_shown)]

# -- runs and results -------------------------------------------------------------------------------------------------


@others.get("/visitor", tags=["runs"])
async def visitor(request: Request) -> schemas.Visitor:
    """Say whether the visitor may start work, or only look, and whether there is a served log."""
    served: bool = request.app.state.studio.served.is_there
    return schemas.Visitor(may_change=not is_reader(request), has_log=served)


@others.get("/monitor", tags=["runs"])
async def monitor(studio: TheStudio) -> schemas.MonitorAnswer:
    """Return what the monitor says about the served log: coverage, kept gain, rates and alarms."""
    return await studio.ranked(studio.served.answer)


@others.get("/governor", tags=["runs"])
async def governor(studio: TheStudio) -> schemas.GovernorAnswer | None:
    """Return what a governor did with the price of the served lists, and why; null without one."""
    return await studio.ranked(studio.served.governor)


@others.get("/results", tags=["runs"])
async def results(studio: TheStudio) -> list[schemas.ResultRow]:
    """List all results with their goals, budgets and figures."""
    return await studio.ranked(studio.results)


@others.get("/compare", tags=["runs"])
async def compare_results(
    studio: TheStudio,
    first: Annotated[str, Query(description="Name of a result.", max_length=500)],
    second: Annotated[str, Query(description="Name of another.", max_length=500)],
) -> schemas.CompareAnswer:
    """Say what two results have in common, and return the figures of both."""
    one, other = studio.opened(first), studio.opened(second)
    views, figures = (one.view(), other.view()), (one.summary().served, other.summary().served)
    return await studio.ranked(lambda: compare.answer((first, second), views, figures))


@routes.get("", tags=["runs"])
async def list_runs(studio: TheStudio) -> list[schemas.RunState]:
    """List the runs and results of the studio."""
    for one in studio.runs.values():
        one.look()
    return [one.state() for one in studio.runs.values()]


@routes.get("/{run}", tags=["runs"])
async def summary(one: Opened) -> schemas.RunSummary:
    """Return the state of a run, its size, its goals, and the effect of its result."""
    one.look()
    return one.summary()


@routes.get("/{run}/events", tags=["runs"], response_class=StreamingResponse)
async def events(one: Opened, request: Request) -> StreamingResponse:
    """Stream the events of the run as server-sent events `happened` and `standing`, until the client disconnects."""
    stream = live.follow(one.run, request.is_disconnected)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


# -- one user ---------------------------------------------------------------------------------------------------------


@routes.get("/{run}/search", tags=["users"])
async def search(one: Opened, q: Annotated[str, Query(max_length=200)], studio: TheStudio) -> schemas.SearchHits:
    """Find users by a part of their id, and items by a part of their title."""
    view = one.view()
    return await studio.ranked(lambda: view.search(q))


@routes.get("/{run}/user", tags=["users"])
async def user(at: At, user: User, studio: TheStudio) -> schemas.UserAnswer:
    """Return a user's history, lists before and after, and dials."""
    return await studio.ranked(lambda: people.answer(at.view, at.change, user, live=at.live))


@routes.get("/{run}/reasons", tags=["users"])
async def reasons(at: At, user: User, studio: TheStudio) -> schemas.ReasonsAnswer:
    """Return the reason of every new item in a user's list."""
    return await studio.ranked(lambda: people.reasons(at.view, at.change, user, live=at.live))


@routes.get("/{run}/why", tags=["users"])
async def why(at: At, user: User, item: ItemId, studio: TheStudio) -> schemas.Said:
    """Explain why an item is in a user's list, or why it is not, and at which price that changes."""
    return await studio.ranked(lambda: people.why(at.view, at.change, user, item, live=at.live))


@routes.get("/{run}/what-if", tags=["users"])
async def what_if(
    at: At,
    user: User,
    item: ItemId,
    studio: TheStudio,
    change: Annotated[
        Literal["without", "forget"],
        Query(description="without: no user can be shown the item. forget: it no longer counts in the history."),
    ] = "without",
) -> schemas.WhatIfAnswer:
    """Make a user's list again after a change."""
    return await studio.ranked(lambda: people.what_if(at.view, at.change, user, change, item, live=at.live))


@routes.get("/{run}/steer", tags=["users"])
async def steer(
    at: At,
    user: User,
    studio: TheStudio,
    set: Annotated[list[str], Query(description="A dial and a share, as in Animation=0.2.", max_length=200)],
) -> schemas.SteerAnswer:
    """Rank a user's list with dials set; nothing is kept."""
    settings = _settings(set)
    return await studio.ranked(lambda: people.steered(at.view, at.change, user, settings, live=at.live))


def _settings(words: list[str]) -> dict[str, float]:
    """Read settings of dials; the last sign = divides, because a name may hold one."""
    try:
        return {name: float(share) for name, _, share in (word.rpartition("=") for word in words)}
    except ValueError:
        raise HTTPException(422, "a setting is a dial and a share, as in Animation=0.2") from None


# -- all users --------------------------------------------------------------------------------------------------------


@routes.get("/{run}/paths/{goal}", tags=["paths"])
async def path(one: Opened, goal: GoalWords) -> schemas.PathAnswer:
    """Return the path from the current lists to more diverse ones: gain and cost of each point."""
    return one.view().path_answer(Goal.parse(goal))


@routes.post("/{run}/paths/{goal}", tags=["paths"], status_code=202)
async def want_path(one: Opened, goal: GoalWords) -> schemas.RunState:
    """Compute the path towards a goal, or a mix of goals joined by +, in the background.

    The state of the run shows the progress. The path is kept in the run.
    """
    one.want_path(one.view().goal_named(goal))
    return one.state()


@routes.delete("/{run}/paths/{goal}", tags=["paths"])
async def cancel_path(one: Opened, goal: GoalWords) -> schemas.RunState:
    """Stop computing the path towards a goal; a path that is there stays."""
    one.cancel_path(one.view().goal_named(goal))
    return one.state()


@routes.get("/{run}/stop", tags=["paths"])
async def stop(at: At) -> schemas.StopAnswer:
    """Return the stop that a budget reaches, and the command that makes a result there."""
    return schemas.StopAnswer(goal=at.change.towards, point=at.change.point or 0, command=_command(at))


def _command(at: Shown) -> str:
    """Return the command that makes what is shown; "" for a stop that no budget certified."""
    if at.change.point is None:
        return commands.made_by(at.view.run, at.view.asked)
    low, high = commands.POSSIBLE
    if not at.change.point or at.change.goal is None or at.budget is None or not low <= at.budget <= high:
        return ""
    return commands.diversify(at.view.run, at.view.asked, at.change.goal, at.budget)


@routes.get("/{run}/payers", tags=["paths"])
async def payers(at: At, studio: TheStudio) -> schemas.PayersAnswer:
    """Return the change of NDCG@10 by groups of users, and who pays more than the others."""
    return await studio.ranked(lambda: at.view.payers(at.change))


@routes.get("/{run}/segment", tags=["paths"])
async def segment(
    at: At, segment: Annotated[str, Query(description="Name of a segment.", max_length=100)], studio: TheStudio
) -> schemas.SegmentAnswer:
    """Return users of a segment, those with the most new items first."""
    return await studio.ranked(lambda: at.view.segment_users(at.change, segment))


# -- items ------------------------------------------------------------------------------------------------------------


@routes.get("/{run}/item", tags=["items"])
async def item(at: At, item: ItemId, studio: TheStudio) -> schemas.ItemAnswer:
    """Return who sees an item, before and after."""
    return await studio.ranked(lambda: items.answer(at.view, at.change, item))


@routes.get("/{run}/item/reasons", tags=["items"])
async def item_reasons(at: At, item: ItemId, studio: TheStudio) -> schemas.ItemReasons:
    """Return the most frequent reasons for which lists gained an item."""
    return await studio.ranked(lambda: items.reasons(at.view, at.change, item))


# -- downloads --------------------------------------------------------------------------------------------------------


@routes.get("/{run}/download/lists", tags=["downloads"], response_class=FileResponse)
async def download_lists(at: At, studio: TheStudio) -> Response:
    """Download all users' lists: CSV with user_id, item_id, rank."""
    return await studio.ranked(lambda: downloads.lists_file(at.view, at.change, live=at.live))


@routes.get("/{run}/download/vectors", tags=["downloads"], response_class=FileResponse)
async def download_vectors(at: At, studio: TheStudio) -> Response:
    """Download user vectors compiled for live lists: a zip of factors.safetensors and factors.json."""
    return await studio.ranked(lambda: downloads.vectors_file(at.view, at.change))


@routes.get("/{run}/download/report", tags=["downloads"], response_class=FileResponse)
async def download_report(one: Opened) -> Response:
    """Download the page that `recprism report` wrote for the run."""
    if not downloads.has_report(one.run):
        raise HTTPException(404, "there is no complete report.html in this run; `recprism report` writes one")
    return downloads.report_file(one.run)
