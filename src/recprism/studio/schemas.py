"""The answers of the server, as described on the OpenAPI page."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Id = int | str


class Visitor(BaseModel):
    """What the visitor may do."""

    may_change: bool = Field(description="False for a link to read only.")
    has_log: bool = Field(description="Whether the studio shows a served log.")


class Status(BaseModel):
    """The current activity of a run."""

    doing: Literal["nothing", "training", "searching", "stopped"]
    done: int
    total: int | None
    seconds_left: float | None


class Certified(BaseModel):
    """What a certificate says."""

    metric: str
    loss: float = Field(description="At most this share of the metric is lost.")
    confidence: str = Field(description="How sure it is, in words: of all questions to the same labels together.")
    users: int
    part: str = Field(description="The part whose labels certified it.")


class Served(BaseModel):
    """The effect of the run's result on the test part."""

    goal: str
    before: dict[str, float | None]
    after: dict[str, float | None]
    changes: dict[str, float | None] = Field(description="Relative to before.")
    certified: Certified | None


class RunState(BaseModel):
    """A result of a run, or a run without one, and whether it is ready."""

    name: str
    title: str
    phase: Literal["waiting", "preparing", "ready", "broken"]
    message: str = Field(description="What is being done, or why the run is not ready; empty if nothing is awaited.")
    done: int = 0
    total: int = 0
    seconds_left: float | None = Field(default=None, description="An estimate from the steps that are done.")
    problem: str = Field(default="", description="Why the last work on a ready run failed.")
    standing: Status


class RunSummary(RunState):
    """A summary of a run; most fields are empty until the run is ready."""

    n_users: int = 0
    n_items: int = 0
    n_categories: int = 0
    goals: list[str] = []
    possible_goals: list[str] = []
    waiting: list[str] = Field(default=[], description="Goals whose paths are computed or wait, in order.")
    example_user: Id | None = None
    served: Served | None = None
    has_report: bool = False
    segments: list[str] = []


class ResultRow(BaseModel):
    """One line of the table of all results."""

    name: str
    phase: str
    state: str
    model: str | None
    data: str | None
    goal: str | None
    budget: float | None = Field(description="Share of NDCG@10 that may be lost.")
    certified: float | None = Field(description="The largest loss of NDCG@10 that is certified.")
    date: str | None
    test: str = Field(
        description="Results with the same number are judged on the same held-out interactions; empty for none."
    )
    values: dict[str, float | None] = Field(description="Of the served lists, on the test part.")
    changes: dict[str, float | None] = Field(description="Relative to the trained model.")


class PathPoint(BaseModel):
    """One point of a path from the current lists to more diverse ones."""

    point: int
    trade_off: float
    loss: float | None = Field(description="Loss of NDCG@10 as a share, on the part that decides; null without labels.")
    certified_within: float | None = Field(
        description="Smallest budget that certifies this point and all before it, as the only question."
    )
    values: dict[str, float | None] = Field(description="On the test part.")
    changes: dict[str, float | None] = Field(description="Relative to point 0, on the test part.")


class PathAnswer(BaseModel):
    """The path towards a goal."""

    goal: str
    metric: str
    cost: str
    confidence: float
    part: str = Field(description="The part whose labels decide how far a budget reaches.")
    shown_part: str = Field(description="The part of all values and changes.")
    users: int
    points: list[PathPoint]


class StopAnswer(BaseModel):
    """The stop that a budget reaches."""

    goal: str
    point: int
    command: str = Field(description="Makes what is shown as a result; empty where no budget certified it.")


class Payer(BaseModel):
    """The change of NDCG@10 for a group of users, on the test part."""

    segment: str
    users: int
    relative: float | None = Field(description="Change as a share of the value before.")
    low: float | None = Field(description="Lower end of the 95 % interval of that share.")
    high: float | None
    p_loses_more: float | None = Field(description="That the group loses more than all other users; Holm-corrected.")


class PayersAnswer(BaseModel):
    """Who pays."""

    sentence: str = Field(description="Names a group only if it pays more beyond chance; empty without labels.")
    rows: list[Payer]


class SegmentUser(BaseModel):
    """A user of a segment."""

    user: Id
    new: int = Field(description="Items of the list that the base list lacks.")


class SegmentAnswer(BaseModel):
    """Users of a segment, those with the most new items first."""

    segment: str
    total: int
    users: list[SegmentUser]


class Item(BaseModel):
    """An item."""

    id: Id
    title: str
    year: str
    categories: tuple[str, ...]


class Entry(Item):
    """One place of a list."""

    rank: int
    state: Literal["new", "gone", "moved", "stayed"]
    reason: str = ""


class History(BaseModel):
    """The history of a user."""

    total: int
    categories: list[tuple[str, int]] = Field(description="The most frequent categories, with their number of items.")
    items: list[Item] = Field(description="The first items; a long history is cut.")


class Dial(BaseModel):
    """A named weight of one user."""

    name: str
    share: float = Field(description="What was found, as a share of the user's score range.")
    own: float = Field(description="The user's own setting, added to it.")


class UserAnswer(BaseModel):
    """A user's history, lists before and after, and dials."""

    user: Id
    what: str = Field(description="What made the list after.")
    live: bool = Field(description="Whether all known history counts; else the history before the held-out part.")
    note: str = Field(description="Why there are no reasons; empty if there are.")
    before: list[Entry]
    after: list[Entry]
    history: History
    dials: list[Dial] = Field(description="Empty if the result cannot have dials.")
    dials_note: str
    command: str


class ItemReason(BaseModel):
    """Why an item is new in a list."""

    id: Id
    reason: str


class ReasonsAnswer(BaseModel):
    """The reasons of all new items of a list."""

    user: Id
    reasons: list[ItemReason]


class Said(BaseModel):
    """The answer to a question about one item in a user's list."""

    user: Id
    item: Item
    inside: bool = Field(True, description="Whether the item is in the list of the rule.")
    sentences: list[str] = Field(description="For users first, then for engineers.")
    command: str


class WhatIfAnswer(Said):
    """A list after a change, next to the one before it."""

    after: list[Entry]


class Measured(BaseModel):
    """A metric of one user's list."""

    name: str
    before: float
    after: float


class SteerAnswer(BaseModel):
    """A user's list with dials set, next to the base list."""

    user: Id
    settings: dict[str, float]
    before: list[Entry]
    after: list[Entry]
    values: list[Measured]
    command: str


class SearchHits(BaseModel):
    """Users whose id begins with the words, and items whose title contains them."""

    users: list[Id]
    items: list[Item]


class ItemAnswer(BaseModel):
    """The lists with an item, before and after."""

    item: Item
    what: str
    users: int = Field(description="Number of all lists.")
    lists_before: int
    lists_after: int
    n_gained: int
    n_lost: int
    n_kept: int
    gained: list[Id] = Field(description="The first users whose lists gained it.")
    lost: list[Id]
    kept: list[Id]


class CountedReason(BaseModel):
    """A reason, and how many lists have it."""

    reason: str
    lists: int


class ItemReasons(BaseModel):
    """The most frequent reasons for which lists gained an item."""

    asked: int = Field(description="How many lists were read.")
    reasons: list[CountedReason]


class CompareAnswer(BaseModel):
    """What two results have in common."""

    names: list[str]
    users: int
    items: int
    example_user: Id | None
    same_test: bool
    sentences: list[str] = Field(description="What can be compared, and what cannot.")
    figures: list[Served | None]


class ServedDay(BaseModel):
    """One day of a served log, or all days; coverage and what is kept are those of requests at the usual price."""

    day: str
    requests: int
    units: int = Field(description="First requests of users on the day, which the interval looks at.")
    base: float | None
    rule: float | None
    shown: float | None
    retained: float | None = Field(description="Share of the rule's gain that users saw.")
    low: float | None
    high: float | None
    fallbacks: float | None
    unmet: float | None
    swaps: float | None
    median_ms: float | None
    p99_ms: float | None
    holdout: float | None


class ServedAlarm(BaseModel):
    """A limit, and whether it holds."""

    name: str
    day: str
    limit: float
    side: str
    value: float | None
    low: float | None
    high: float | None
    state: str = Field(description="fires, holds, or not decided.")
    sentence: str


class MonitorAnswer(BaseModel):
    """What the monitor says about a served log."""

    log: str
    metric: str
    verdict: str
    passed: bool
    floor: float
    days: list[ServedDay]
    total: ServedDay
    alarms: list[ServedAlarm] = Field(description="Those of all days, and those of single days that fire.")
    holdout: str = Field(description="What the holdout shows; empty without one.")
    notes: list[str]


class GovernedPrice(BaseModel):
    """What live traffic shows about one outcome at one price, against the first price."""

    price: float
    question: str = Field(description="An outcome, and perhaps a group of users after an @.")
    budget: float
    loss: float | None
    low: float | None
    high: float | None
    answer: str = Field(description="certified, undecided, or broken.")
    days: int | None = Field(description="Days until an answer, if they go on as before.")
    sentence: str


class PriceChange(BaseModel):
    """A change of the price, and why."""

    when: str
    what: str
    why: str


class GovernorAnswer(BaseModel):
    """What a governor did with the price, from its events."""

    verdict: str
    price: float
    prices: list[GovernedPrice] = Field(description="The evidence of the last step.")
    changes: list[PriceChange] = Field(description="The latest ones first.")
    notes: list[str]


class Refusal(BaseModel):
    """An error: what is wrong and what to do."""

    detail: Any
