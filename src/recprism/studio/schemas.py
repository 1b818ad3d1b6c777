"""The answers of the server, as described on the OpenAPI page."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Id = int | str


class Status(BaseModel):
    """The current activity of a run."""

    doing: Literal["nothing", "training", "searching", "stopped"]
    done: int
    total: int | None
    seconds_left: float | None


class Served(BaseModel):
    """The effect of the run's own vectors, if it was diversified."""

    goal: str
    before: dict[str, float | None]
    after: dict[str, float | None]
    certificate: str | None = Field(description="The certificate in words.")


class RunState(BaseModel):
    """A run, and whether it is ready."""

    name: str
    title: str
    phase: Literal["waiting", "preparing", "ready", "broken"]
    message: str
    done: int = 0
    total: int = 0
    standing: Status


class RunSummary(RunState):
    """A summary of a run; most fields are empty until the run is ready."""

    n_users: int = 0
    n_items: int = 0
    n_subtopics: int = 0
    goals: list[str] = []
    possible_goals: list[str] = []
    example_user: Id | None = None
    served: Served | None = None
    has_report: bool = False


class PathPoint(BaseModel):
    """One point of a path from the current lists to more diverse ones."""

    point: int
    trade_off: float
    loss: float | None = Field(description="Loss of NDCG@10 as a share, on the part that decides; null without labels.")
    certified_within: float | None = Field(
        description="Smallest budget that certifies this point and all before it, as the only question."
    )
    values: dict[str, float | None] = Field(description="On the test part.")
    changes: dict[str, float | None] = Field(description="Relative to point 0.")


class PathAnswer(BaseModel):
    """The path towards a goal."""

    goal: str
    metric: str
    cost: str
    confidence: float
    part: str = Field(description="The part whose labels decide how far a budget reaches.")
    users: int
    points: list[PathPoint]


class Payer(BaseModel):
    """The change of NDCG@10 for a group of users, on the test part."""

    segment: str
    users: int
    relative: float | None = Field(description="Change as a share of the value before.")
    low: float | None = Field(description="Lower end of the 95 % interval of that share.")
    high: float | None
    p_loses_more: float | None = Field(description="That the group loses more than all other users; Holm-corrected.")


class PayersAnswer(BaseModel):
    """Who pays at a point of a path."""

    point: int
    sentence: str = Field(description="Names a group only if it pays more beyond chance; empty without labels.")
    rows: list[Payer]


class Item(BaseModel):
    """An item."""

    id: Id
    title: str
    year: str
    subtopics: tuple[str, ...]


class Entry(Item):
    """One place of a list."""

    rank: int
    state: Literal["new", "gone", "moved", "stayed"]
    reason: str = Field("", description="Why a new item came, from the rule; empty for other items and for players.")


class History(BaseModel):
    """The history of a user."""

    items: int
    subtopics: list[tuple[str, int]] = Field(description="The most frequent subtopics, with their number of items.")


class ListsAnswer(BaseModel):
    """A user's list before and after."""

    user: Id
    point: int
    before: list[Entry]
    after: list[Entry]
    history: History


class SearchHits(BaseModel):
    """Users whose id begins with the words, and items whose title contains them."""

    users: list[Id]
    items: list[Item]


class ItemAnswer(BaseModel):
    """The lists with an item, before and after."""

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


class Dial(BaseModel):
    """A named weight of the run's dials."""

    name: str
    share: float = Field(description="Mean over the users who have it, as a share of the user's score range.")
    users: int = Field(description="Users whose weight is not 0.")


class FeaturesAnswer(BaseModel):
    """What changed: features of players' vectors with the verdict about factors, or the dials of a rule."""

    objective: str
    verdict: str
    holds: bool
    features: list[Feature] = Field(description="Empty if a rule made the lists.")
    dials: list[Dial] = []


class TurnAnswer(BaseModel):
    """The effect of scaling one factor or direction."""

    scale: float
    values: dict[str, float | None] = Field(description="Over all users, with the feature scaled.")
    as_found: dict[str, float | None]
    base: dict[str, float | None]
    lists: ListsAnswer


class Problem(BaseModel):
    """An error: what is wrong and what to do."""

    detail: Any
