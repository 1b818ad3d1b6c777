"""What requests may contain. An unknown field is refused."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recprism.common.ids import Id
from recprism.errors import InputError
from recprism.service.settings import Settings

Number = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # what JSON writers can send back
ItemId = Number | Annotated[str, Field(max_length=1024)]
ShortText = Annotated[str, Field(max_length=256)]
SLOW_CANDIDATES = 2_000
"""A request with more candidates is answered in a thread, so that others need not wait for it."""


class Body(BaseModel):
    """A body without unknown fields, whose values have the right types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Constraints(Body):
    """What the list must keep, in addition to the constraints of the export."""

    banned: list[ItemId] = Field(default=[], description="Ids that are not shown.")
    pinned: dict[str, ItemId] = Field(default={}, description="Place, from 1 -> id.")
    min_share: dict[str, float | str] = Field(default={}, description="Category -> smallest share of the list.")
    max_share: dict[str, float | str] = Field(default={}, description="Category -> largest share of the list.")
    min_items: dict[str, int] = Field(default={}, description="Category -> smallest number of items.")
    max_items: dict[str, int] = Field(default={}, description="Field -> largest number of items with one value.")
    spacing: dict[str, int] = Field(
        default={}, description="Field -> so many places in a row have a value at most once."
    )


class Common(Body):
    """The fields of every request for a list."""

    k: int | None = Field(default=None, ge=0, description="Length of the list; that of the rule by default.")
    history: list[ItemId] | None = Field(
        default=None,
        description="Ids that the user has consumed, the latest last; [] for a user without a history. A rule that "
        "weighs histories needs it, unless the export holds that of the user.",
    )
    exclude: list[ItemId] | None = Field(default=None, description="Ids that are not shown.")
    shown: list[tuple[ItemId, float]] | None = Field(
        default=None, description="Ids of earlier pages with their ages in pages: [[id, 1]] for the page before."
    )
    no_repeat: int | None = Field(
        default=None, ge=0, description="Pages after which a shown item may come again; by default it never does."
    )
    half_life: float | None = Field(
        default=None, gt=0, description="Pages after which what was shown counts half; 1 by default."
    )
    constraints: Constraints | None = None
    price: float | ShortText | None = Field(
        default=None, description="Another trade-off from 0 to 1, or a name from the file of prices."
    )
    user: ItemId | None = Field(
        default=None, description="Id of the user: for reasons, the holdout, and a stored history."
    )
    scorer: ShortText | None = Field(
        default=None, description="Name of the model that made the scores; that of the service by default."
    )
    time_limit: float | None = Field(
        default=None, ge=0, description="Seconds after which the list by relevance alone is returned."
    )

    def options(self) -> dict[str, Any]:
        """Return the arguments of the library."""
        kept = self.constraints
        return {
            "k": self.k,
            "history": self.history,
            "exclude": self.exclude,
            "shown": self.shown,
            "no_repeat": self.no_repeat,
            "half_life": self.half_life,
            "constraints": None if kept is None else {name: getattr(kept, name) for name in kept.model_fields_set},
            "price": self.price,
            "user": self.user,
            "scorer": self.scorer,
            "time_limit": self.time_limit,
        }

    def lists(self) -> dict[str, list[Id] | None]:
        """Return the lists of ids whose length is limited."""
        banned = None if self.constraints is None else self.constraints.banned
        shown = None if self.shown is None else [item for item, _ in self.shown]
        return {"history": self.history, "exclude": self.exclude, "shown": shown, "banned": banned}

    @property
    def is_slow(self) -> bool:
        """Whether the request takes more than a few milliseconds."""
        return False


class WithCandidates(Common):
    """A request with the candidates and scores of the caller's ranker."""

    candidates: list[ItemId] = Field(description="Ids, in any order.")
    scores: list[float] = Field(description="One score per candidate; larger is better, on any scale.")
    fields: dict[str, list[ItemId | list[ItemId] | None]] | None = Field(
        default=None, description="Field -> for each candidate a value, several values, or null, such as the author."
    )

    def options(self) -> dict[str, Any]:
        return {"candidates": self.candidates, "scores": self.scores, "fields": self.fields, **super().options()}

    def lists(self) -> dict[str, list[Id] | None]:
        return {"candidates": self.candidates, **super().lists()}

    @property
    def is_slow(self) -> bool:
        return len(self.candidates) > SLOW_CANDIDATES


class ForUsers(Body):
    """A list that a user sees: the user's dials, which reasons are wanted, and what the log notes."""

    segment: ShortText | None = Field(default=None, description="Name of the user's segment, for the log.")
    dials: dict[str, float] | None = Field(
        default=None, description="Category -> what is added to its items, as a share from -1 to 1 of the score range."
    )
    reasons: bool = Field(default=True, description="Whether the answer has the reason of each item.")
    entry_prices: bool = Field(default=False, description="Whether reasons say at which price an item enters; slow.")

    def of_reasons(self) -> dict[str, Any]:
        return {"dials": self.dials, "reasons": self.reasons, "entry_prices": self.entry_prices}


class RerankBody(ForUsers, WithCandidates):
    """A list from candidates with scores."""

    def options(self) -> dict[str, Any]:
        return {**super().options(), **self.of_reasons()}

    @property
    def is_slow(self) -> bool:
        return self.entry_prices or super().is_slow


class RankBody(ForUsers, Common):
    """A list for a user vector, over the item vectors of the export."""

    user_vector: list[float] = Field(max_length=65_536, description="As the item vectors of the export expect it.")

    def options(self) -> dict[str, Any]:
        return {"user_vector": self.user_vector, **super().options(), **self.of_reasons()}

    @property
    def is_slow(self) -> bool:
        return self.entry_prices


class ExplainBody(WithCandidates):
    """Why each item of the list of /rerank is in it, in words."""

    dials: dict[str, float] | None = Field(default=None, description="As for /rerank.")
    entry_prices: bool = Field(default=True, description="Whether reasons say at which price an item enters.")

    def options(self) -> dict[str, Any]:
        return {**super().options(), "dials": self.dials, "reasons": True, "entry_prices": self.entry_prices}

    @property
    def is_slow(self) -> bool:
        return True


class SteerBody(WithCandidates):
    """A list with dials, and what they change."""

    dials: dict[str, float] = Field(description="Category -> a share from -1 to 1 of the score range.")
    reasons: bool = Field(default=True, description="Whether the answer has the reason of each item.")

    def options(self) -> dict[str, Any]:
        return {**super().options(), "dials": self.dials, "reasons": self.reasons}


class EnabledBody(Body):
    """The kill switch."""

    enabled: bool = Field(description="False: every list is by relevance alone, under its constraints.")


ServedBody = RerankBody | RankBody
"""What asks for a list that a user sees."""
Given = TypeVar("Given", bound=Body)
BODIES = (RerankBody, RankBody, ExplainBody, SteerBody, EnabledBody)


def read_body(model: type[Given], content: bytes) -> Given:
    """Read the body of a request.

    Raises:
        InputError: If it is no JSON, or has an unknown, missing or wrong field.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as problem:
        raise InputError(_sentence(model, problem)) from None


def require_within(body: Common, settings: Settings) -> None:
    """Refuse a request that is larger than allowed.

    Raises:
        InputError: If a list of ids, the wanted list or the pins are too many.
    """
    if body.k is not None and body.k > settings.max_k:
        raise InputError(f"k is {body.k}; this service makes lists of at most {settings.max_k}")
    for name, ids in body.lists().items():
        if ids is not None and len(ids) > settings.max_candidates:
            raise InputError(f"{name} has {len(ids):,} ids; this service takes at most {settings.max_candidates:,}")
    pins = 0 if body.constraints is None else len(body.constraints.pinned)
    if pins > settings.max_k:
        raise InputError(f"pinned has {pins:,} places; this service makes lists of at most {settings.max_k:,}")


def _sentence(model: type[Body], problem: ValidationError) -> str:
    """Return what is wrong with the first field that is wrong, without its value."""
    problems = problem.errors(include_url=False, include_input=False)
    first, name = problems[0], _name(problems[0]["loc"])
    if first["type"] == "json_invalid":
        return f"the body is no JSON ({first['msg'].removeprefix('Invalid JSON: ')})"
    if not name:
        return "the body must be a JSON object"
    if first["type"] == "extra_forbidden":
        fields = (Constraints if "." in name else model).model_fields
        return f"there is no field {name!r}; there are {', '.join(fields)}"
    if first["type"] == "missing":
        return f"the field {name!r} is missing"
    said = [it["msg"].removeprefix("Input should be ") for it in problems if _name(it["loc"]) == name]
    return f"the field {name!r} must be {' or '.join(dict.fromkeys(said))}"


def _name(where: tuple[int | str, ...]) -> str:
    """Return the path to a field, without the kinds of a value that may have several."""
    kinds = ("int", "str", "float", "constrained-int", "constrained-str")
    return ".".join(str(it) for it in where if it not in kinds)
