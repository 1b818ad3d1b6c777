"""What the server answers, as the OpenAPI page describes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Id = int | str


class Status(BaseModel):
    """What a run is doing, if anything."""

    doing: Literal["nothing", "training", "searching", "stopped"]
    done: int
    total: int | None
    seconds_left: float | None


class Served(BaseModel):
    """What the run's own vectors do, where it was diversified."""

    goal: str
    before: dict[str, float | None]
    after: dict[str, float | None]
    certificate: str | None = Field(description="What the vectors are certified to cost, in words.")


class RunState(BaseModel):
    """A run, and whether it can be looked at."""

    name: str
    title: str
    phase: Literal["waiting", "preparing", "ready", "broken"]
    message: str
    done: int = 0
    total: int = 0
    standing: Status


class RunSummary(RunState):
    """What the page needs to know first; the rest is empty until the run is ready."""

    n_users: int = 0
    n_items: int = 0
    n_subtopics: int = 0
    goals: list[str] = []
    possible_goals: list[str] = []
    example_user: Id | None = None
    served: Served | None = None
    has_report: bool = False


class PathPoint(BaseModel):
    """One stop on the way from the lists as they are to more diverse ones."""

    point: int
    trade_off: float
    loss: float | None = Field(
        description="Share of NDCG@10 that is lost on the part that decides; null without labels."
    )
    upper: float | None = Field(description="Upper confidence bound of that share.")
    values: dict[str, float | None] = Field(description="On the test part.")
    changes: dict[str, float | None] = Field(description="Relative to point 0.")


class PathAnswer(BaseModel):
    """The path towards a goal."""

    goal: str
    metric: str
    cost: str
    confidence: float
    part: str = Field(description="Whose labels decide how far a budget reaches.")
    users: int
    points: list[PathPoint]


class Item(BaseModel):
    """An item as people know it."""

    id: Id
    title: str
    year: str
    subtopics: tuple[str, ...]


class Entry(Item):
    """One place of a list."""

    rank: int
    state: Literal["new", "gone", "moved", "stayed"]


class History(BaseModel):
    """What a user took before."""

    items: int
    subtopics: list[tuple[str, int]] = Field(description="The most frequent ones, and in how many of the items.")


class ListsAnswer(BaseModel):
    """A user's list as it is, and as it would be."""

    user: Id
    point: int
    before: list[Entry]
    after: list[Entry]
    history: History


class SearchHits(BaseModel):
    """Users whose id begins with the words, items whose title holds them."""

    users: list[Id]
    items: list[Item]


class ItemAnswer(BaseModel):
    """In whose lists an item stands."""

    item: Item
    point: int
    lists_before: int
    lists_after: int
    gained: list[Id] = Field(description="Some users whose lists gained it.")
    lost: list[Id]


class Feature(BaseModel):
    """A factor or a direction of the run's own change."""

    number: int
    kind: Literal["direction", "factor"]
    label: str
    name: str
    sentence: str
    size: float
    taken_back: float | None = Field(description="Share of the gain that erasing it undoes.")
    high: list[Item]
    low: list[Item]


class FeaturesAnswer(BaseModel):
    """What the run's change is made of, and whether anything may be said about it."""

    objective: str
    verdict: str
    holds: bool
    features: list[Feature]


class TurnAnswer(BaseModel):
    """What happens when one factor or direction is turned by hand."""

    scale: float
    values: dict[str, float | None] = Field(description="Over all users, with it turned.")
    as_found: dict[str, float | None]
    base: dict[str, float | None]
    lists: ListsAnswer


class Problem(BaseModel):
    """One sentence: what is wrong and what to do."""

    detail: Any
