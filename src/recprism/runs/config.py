"""What a run was asked to do: read from and written to config.toml, unknown keys refused."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from recprism.data._files import readable, write_text
from recprism.data.shares import CONFIDENCE, share
from recprism.errors import InputError


def _share(low: float = 0.0, high: float = 1.0, *, ends: bool = True) -> BeforeValidator:
    """0.05 and "5%" alike; a number outside is refused with our sentence."""
    return BeforeValidator(lambda value: share(value, low=low, high=high, ends=ends))


AnyShare = Annotated[float, _share()]
InnerShare = Annotated[float, _share(ends=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


ColumnName = Literal["user_id", "item_id", "rating", "timestamp", "subtopic", "weight", "title", "year"]


class DataConfig(_Strict):
    """Which data: a named set, or files of your own."""

    source: str = "ml-latest-small"
    """A named set (see `recprism data list`) or the path of a table of interactions."""
    preset: Literal["default", "paper"] = "default"
    """Minimum counts of a named set: default (5 and 5) or paper (10 per user, 5 per item)."""
    data_root: str | None = None
    """Where named sets are looked for before RECPRISM_DATA."""
    threshold: float | Literal["none"] | None = None
    """Lowest rating that is a positive; "none" takes all; unset follows the data set (4 for named sets with stars)."""
    duplicates: Literal["last", "first", "max", "error"] = "last"
    min_user: int | None = Field(default=None, ge=1)
    min_item: int | None = Field(default=None, ge=1)
    columns: dict[ColumnName, str] = Field(default_factory=dict)
    """Our name -> the name in your files, as in {user_id = "customer"}."""
    subtopics: str | None = None
    """A long table item_id, subtopic[, weight]."""
    items: str | None = None
    """A table of item attributes with a column item_id."""
    subtopic_column: list[str] = Field(default_factory=list)
    """The columns of the item table that hold subtopics, or patterns such as genre_*."""
    subtopic_separator: str | None = Field(default=None, min_length=1)
    """What stands between two subtopics of a text; unset, it is found."""
    subtopic_level: Literal["last", "path"] = "last"
    """Of nested subtopics, the last level or the whole path."""


class SplitConfig(_Strict):
    """How interactions are divided."""

    method: Literal["random", "paper", "leave-last", "temporal", "given", "set-aside"] = "random"
    """How; "given" is a division that came with an imported model, "set-aside" labels taken out of its history."""
    validation: AnyShare = 0.1
    test: InnerShare = 0.1

    def options(self) -> dict[str, float]:
        """The shares, for the methods that know them."""
        return {"validation": self.validation, "test": self.test} if self.method in ("random", "temporal") else {}


class ModelConfig(_Strict):
    """Which base model, from which preset, and what differs from it."""

    name: str = "bprmf"
    preset: str = "default"
    metric: Literal["inner_product", "cosine"] = "inner_product"
    """What the index that serves it searches by; under cosine item vectors are brought to length 1."""
    settings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("settings")
    @classmethod
    def _can_be_kept(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """TOML has no null."""
        nothing = [name for name, value in settings.items() if value is None]
        if nothing:
            raise ValueError(f"{nothing[0]} is null, which a run cannot keep; leave the setting out")
        return settings


class ConstraintsConfig(_Strict):
    """What editors ask for; items by id, subtopics by name."""

    banned: list[int | str] = Field(default_factory=list)
    pinned: dict[str, int | str] = Field(default_factory=dict)
    min_share: dict[str, AnyShare] = Field(default_factory=dict)
    max_share: dict[str, AnyShare] = Field(default_factory=dict)
    tail_floor: AnyShare = 0.0
    per_user_diversity: bool = False


class BudgetConfig(_Strict):
    """The most diversity for a price: what may be lost of which metric, towards which goal, in whose vectors."""

    goal: str = "subtopic_coverage"
    budgets: dict[str, InnerShare]
    side: Literal["user", "item"] = "user"
    confidence: Annotated[float, _share(*CONFIDENCE)] = 0.95
    certify_on: Literal["test", "validation"] | None = None
    """Whose labels decide how far it goes: unless named validation, where the split has such labels."""
    constraints: ConstraintsConfig = ConstraintsConfig()


class DiversifyConfig(_Strict):
    """A perturbation: searched for by a preset of CMB and what differs from it, or found within a budget."""

    preset: str = "default"
    settings: dict[str, Any] = Field(default_factory=dict)
    within: BudgetConfig | None = None


class RunConfig(_Strict):
    """A whole run."""

    seed: int = 0
    device: str = "auto"
    data: DataConfig = DataConfig()
    split: SplitConfig = SplitConfig()
    model: ModelConfig = ModelConfig()
    diversify: DiversifyConfig | None = None


HEAD = "# What this run was asked to do; the last line says that nothing is missing.\n"
END = "# end\n"
FORMAT = 2  # of run directories; 0.1 wrote none


def write_config(path: Path, config: RunConfig, only: set[str] | None = None) -> None:
    """With a last line by which a file that was cut short is known: what is left of it may be valid TOML.

    Who edits the file may write behind that line, too.

    only: the parts to write; all of them if None
    """
    facts = {"format": FORMAT, **config.model_dump(exclude_none=True, include=only)}
    write_text(path, HEAD + tomli_w.dumps(facts) + END)


def is_config(path: Path) -> bool:
    """Whether a file begins as what ``write_config`` writes."""
    try:
        with path.open("rb") as file:
            return file.read(len(HEAD)) == HEAD.encode()
    except OSError:
        return False


def read_config(path: Path) -> RunConfig:
    if not path.exists():
        raise InputError(f"{path.parent}: not a run directory (no {path.name}); make one with `recprism train -o DIR`")
    with readable(path, "not valid TOML", "write it anew, or make another run"):
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
        version = "another version of recprism" if isinstance(found, int) else "recprism 0.1"
        raise InputError(
            f"{path.parent}: made by {version}, whose runs this version does not read; make the run again with "
            "`recprism train` or `recprism import`"
        )


def in_one_sentence(problem: ValidationError) -> str:
    """The first complaint of pydantic, with the place it speaks of."""
    first = problem.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    ours = first.get("ctx", {}).get("error")  # a sentence of ours keeps its letters
    return f"{place or 'configuration'}: {ours or first['msg'].lower()}"
