"""What a run was asked to do, in config.toml. Unknown keys are refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from recprism.common.checks import LARGEST_SEED
from recprism.common.files import readable, write_text
from recprism.common.shares import CONFIDENCE, share
from recprism.data.split import WITH_SHARES
from recprism.errors import InputError
from recprism.rule.constraints.constraints import Constraints

if TYPE_CHECKING:
    from recprism.budget.question import BudgetQuestion


def _share(low: float = 0.0, high: float = 1.0, *, ends: bool = True) -> BeforeValidator:
    """Accept 0.05 and "5%" alike, and refuse numbers outside the range."""
    return BeforeValidator(lambda value: share(value, low=low, high=high, ends=ends))


AnyShare = Annotated[float, _share()]
InnerShare = Annotated[float, _share(ends=False)]

NONE = "none"  # how a file writes None, which TOML does not have
Settings = Annotated[
    dict[str, Any],
    AfterValidator(lambda settings: {name: None if it == NONE else it for name, it in settings.items()}),
    PlainSerializer(lambda settings: {name: NONE if it is None else it for name, it in settings.items()}),
]
"""Settings of a model or a search, by name."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


ColumnName = Literal["user_id", "item_id", "rating", "timestamp", "category", "weight", "title", "year"]


class DataConfig(_Strict):
    """Which data: a named set, or your own files."""

    source: str = "ml-latest-small"
    """A named set (see `recprism data list`) or the path of a table of interactions."""
    preset: Literal["default", "paper"] = "default"
    """Minimum counts of a named set, default (5 and 5) or paper (10 per user, 5 per item)."""
    data_root: str | None = None
    """Where named sets are looked for before RECPRISM_DATA."""
    threshold: float | Literal["none"] | None = None
    """Lowest rating that is a positive; "none" takes all; unset follows the data set (4 for named sets with stars)."""
    duplicates: Literal["last", "first", "max", "error"] = "last"
    min_user: int | None = Field(default=None, ge=1)
    min_item: int | None = Field(default=None, ge=1)
    columns: dict[ColumnName, str] = Field(default_factory=dict)
    """Our name -> the name in your files, as in {user_id = "customer"}."""
    categories: str | None = None
    """A long table item_id, category[, weight]."""
    items: str | None = None
    """A table of item attributes with a column item_id."""
    category_column: list[str] = Field(default_factory=list)
    """The columns of the item table that hold categories, or patterns such as genre_*."""
    category_separator: str | None = Field(default=None, min_length=1)
    """The separator of two categories in a text; found automatically if unset."""
    category_level: Literal["last", "path"] = "last"
    """Of nested categories, the last level or the whole path."""


class SplitConfig(_Strict):
    """How interactions are divided."""

    method: Literal["random", "paper", "leave-last", "user-temporal", "temporal", "given", "set-aside"] = "random"
    """How; "given" is a division that came with an imported model, "set-aside" labels taken out of its history."""
    validation: AnyShare = 0.1
    test: InnerShare = 0.1

    def options(self) -> dict[str, float]:
        """Return the shares, for the methods that use them."""
        return {"validation": self.validation, "test": self.test} if self.method in WITH_SHARES else {}


class ModelConfig(_Strict):
    """Which base model, which preset, and which settings differ from it."""

    name: str = "bprmf"
    preset: str = "default"
    metric: Literal["inner_product", "cosine"] = "inner_product"
    """How the index that serves the model searches. With cosine, item vectors are scaled to length 1."""
    settings: Settings = Field(default_factory=dict)


class ConstraintsConfig(_Strict):
    """Constraints of editors: items by id, categories by name."""

    banned: list[int | str] = Field(default_factory=list)
    pinned: dict[str, int | str] = Field(default_factory=dict)
    min_share: dict[str, AnyShare] = Field(default_factory=dict)
    max_share: dict[str, AnyShare] = Field(default_factory=dict)
    max_items: dict[str, int] = Field(default_factory=dict)
    """Field -> largest number of items with one value; a field is a column of the item table, or "category"."""
    spacing: dict[str, int] = Field(default_factory=dict)
    """Field -> so many places in a row have a value at most once."""
    tail_floor: AnyShare = 0.0
    per_user_diversity: bool = False
    allow_violations: bool = False
    """Whether lists that cannot keep a constraint are served nevertheless; banned items never are."""

    @classmethod
    def of(cls, constraints: Constraints) -> ConstraintsConfig:
        """Return what a run keeps of constraints whose violations are allowed."""
        if constraints.min_items:
            raise InputError("a run cannot keep min_items; state a min_share instead")
        words = constraints.to_dict()
        words["per_user_diversity"] = constraints.per_user_diversity is not None
        return cls.model_validate({**words, "allow_violations": True})

    def parsed(self) -> Constraints:
        """Return what lists must keep."""
        given = self.model_dump(exclude={"allow_violations"})
        return Constraints.parse({**given, "per_user_diversity": "history" if self.per_user_diversity else None})


class BudgetConfig(_Strict):
    """A budget: how much of which metrics may be lost, and the goal."""

    goal: str = "subtopic_coverage"
    budgets: dict[str, InnerShare]
    confidence: Annotated[float, _share(*CONFIDENCE)] = 0.95
    method: Literal["betting", "t"] = "betting"
    """The test behind the certificate; "t" is approximate."""
    certify_on: Literal["test", "validation"] | None = None
    """The part whose labels certify; by default validation, if the split has such labels."""
    history_window: int | None = Field(default=None, ge=1)
    """How many of a user's latest interactions count as history; None counts all of them."""
    clusters: str | None = None
    """Hash of the clusters of users that the certificate allows for; None if users are independent."""
    constraints: ConstraintsConfig = ConstraintsConfig()

    @property
    def question(self) -> BudgetQuestion:
        """What is asked of the labels; constraints, history window and clusters belong to the problem."""
        from recprism.budget.question import BudgetQuestion

        return BudgetQuestion.of(
            self.goal, self.budgets, confidence=self.confidence, method=self.method, part=self.certify_on
        )


class DiversifyConfig(_Strict):
    """A result: from a search with a preset of CMB and settings that differ from it, or within a budget."""

    preset: str = "default"
    settings: Settings = Field(default_factory=dict)
    within: BudgetConfig | None = None


class RunConfig(_Strict):
    """Everything that a run was asked to do."""

    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    device: str = "auto"
    data: DataConfig = DataConfig()
    split: SplitConfig = SplitConfig()
    model: ModelConfig = ModelConfig()
    diversify: DiversifyConfig | None = None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted names, without None and empty ones."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None and value not in ([], ""):
            found[f"{prefix}{name}"] = value
    return found


HEAD = "# What this run was asked to do; the last line says that nothing is missing.\n"
END = "# end\n"
FORMAT = 4  # of run directories; 0.1 wrote none, 0.2 wrote 3


def write_config(path: Path, config: RunConfig, only: set[str] | None = None) -> None:
    """Write config.toml with a last line that marks it as complete: a file that was cut short may be valid TOML.

    A user who edits the file may also write after that line.

    Args:
        path: The file.
        config: What was asked.
        only: The parts to write; all of them if None.
    """
    facts = {"format": FORMAT, **config.model_dump(exclude_none=True, include=only)}
    write_text(path, HEAD + tomli_w.dumps(facts) + END)


def is_config(path: Path) -> bool:
    """Whether a file begins like those that :func:`write_config` writes."""
    try:
        with path.open("rb") as file:
            return file.read(len(HEAD)) == HEAD.encode()
    except OSError:
        return False


def read_config(path: Path) -> RunConfig:
    """Read what :func:`write_config` wrote.

    Raises:
        InputError: If the file is missing, cut short, of another format, or holds unknown settings.
    """
    if path.parent.is_file():
        raise InputError(f"{path.parent}: a file, and no run directory; `recprism evaluate-lists` takes lists in files")
    if not path.exists():
        raise InputError(f"{path.parent}: not a run directory (no {path.name}); make one with `recprism train -o DIR`")
    with readable(path, "not valid TOML", "write it again, or make another run"):
        text = path.read_text(encoding="utf-8")
        if not text or (text[: len(HEAD)] == HEAD[: len(text)] and END.strip() not in text.splitlines()):
            raise InputError(
                f"{path}: cut short (the line `{END.strip()}` is missing); put it back or make another run"
            )
        asked = tomllib.loads(text)
        _require_format(asked.pop("format", None), path)
        try:
            return RunConfig.model_validate(asked)
        except ValidationError as problem:
            raise InputError(f"{path}: {in_one_sentence(problem)}") from None


def _require_format(found: Any, path: Path) -> None:
    """Refuse runs of other versions: their files mean something else."""
    if found != FORMAT:
        version = {None: "recprism 0.1", 3: "recprism 0.2"}.get(found, "another version of recprism")
        raise InputError(
            f"{path.parent}: made by {version}, whose runs this version does not read; make the run again with "
            "`recprism train` or `recprism import`"
        )


def in_one_sentence(problem: ValidationError) -> str:
    """Return the first error that pydantic found, with its place."""
    first = problem.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    ours = first.get("ctx", {}).get("error")  # our own messages keep their case
    return f"{place or 'configuration'}: {ours or first['msg'].lower()}"
