"""Which options have an effect in which mode of a command. Any other option on the command line is refused.

A command that is not in ``COMMANDS`` has one mode, and all its options have an effect in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from recprism.cli._usage import parameter_name
from recprism.errors import InputError, RecprismError

Values = Mapping[str, Any]
"""Parameter -> its value."""


@dataclass(frozen=True)
class Mode:
    """One way to use a command.

    Attributes:
        phrase: The mode in a sentence, after "has no effect" and "it works".
        options: Parameters that have an effect in this mode, with blanks between.
        holds: Whether values choose this mode.
    """

    phrase: str
    options: str
    holds: Callable[[Values], bool]


Choice = tuple[Mode, ...]
"""Modes that exclude each other. An option that one of them names has no effect in those that do not name it."""


def refuse_ignored(command: str, context: Any) -> None:
    """Refuse an option that was given and has no effect in the mode that the other options choose.

    Args:
        command: The words that call the command, as in "data stats".
        context: Its parsed command line. A value that equals the default was given, too.

    Raises:
        InputError: There is such an option; the sentence names the modes in which it works.
    """
    for choice in choices_of(command):
        if sentence := ignored(choice, context):
            raise InputError(sentence)


def choices_of(command: str) -> tuple[Choice, ...]:
    """Return what the options of a command depend on."""
    found = COMMANDS.get(command, ())
    return found if isinstance(found, tuple) else found()


def ignored(choice: Choice, context: Any) -> str | None:
    """A sentence about the first option that was given and has no effect in the chosen mode; None if there is none."""
    mode = next((mode for mode in choice if mode.holds(context.params)), None)
    if mode is None:
        return None
    for param in context.command.params:
        works = [other.phrase for other in choice if param.name in other.options.split()]
        if works and mode.phrase not in works and is_given(context, param.name):
            return f"{parameter_name(param)} has no effect {mode.phrase}; it works {' or '.join(works)}"
    return None


def is_given(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# -- what modes depend on ---------------------------------------------------------------------------------------------


def _has(values: Values, *names: str) -> bool:
    """Whether one of the parameters has a value."""
    return any(values[name] not in (None, False, [], ()) for name in names)


def _either(holds: Callable[[Values], bool], phrase: str, options: str, otherwise: str, others: str = "") -> Choice:
    """A choice between a condition and its opposite."""
    return Mode(phrase, options, holds), Mode(otherwise, others, lambda values: not holds(values))


def _with(option: str, name: str, options: str = "", *, otherwise: str = "") -> Choice:
    """A choice between a command line with an option and one without it."""
    return _either(lambda values: _has(values, name), f"with {option}", options, f"without {option}", otherwise)


def _of_data(source: str) -> Choice:
    """A choice by the parameter that names the data."""

    def named(values: Values) -> bool:
        from recprism.runs.jobs.dataset import is_named

        return is_named(str(values[source]))

    return _either(
        named, "for a named data set", "preset data_root", "for your own files", f"columns items {CATEGORIES}"
    )


def _has_credit(kind: str, presets: tuple[str, ...]) -> Callable[[Values], bool]:
    """Whether a search has this kind of credit: by ``--set credit=``, else by its preset."""

    def holds(values: Values) -> bool:
        words = [word.partition("=") for word in values["settings"] or ()]
        asked = next((value.strip() for name, _, value in words if name.strip() == "credit"), None)
        return values["preset"] in presets if asked is None else asked == kind

    return holds


def _has_form(form: str) -> Callable[[Values], bool]:
    return lambda values: _form_of(values) == form


def _form_of(values: Values) -> str | None:
    """What an export writes; None if the run cannot be read, which the command then says."""
    from recprism.forms.form import default_form
    from recprism.runs.run import Run

    if values["form"] is not None:
        return str(values["form"])
    with suppress(RecprismError, OSError):
        asked = Run.open(values["run_directory"], values["name"]).config.diversify
        return default_form(has_rule=asked is not None and asked.within is not None)
    return None


def _by_form() -> tuple[Choice, ...]:
    """A choice between all forms, by the options that each of them has."""
    from recprism.forms.form import FORMS, options_of

    modes = {name: " ".join(PARAMETERS.get(it, it) for it in options_of(form)) for name, form in FORMS.items()}
    return (tuple(Mode(f"for --form {name}", options, _has_form(name)) for name, options in modes.items()),)


def _is_diversified(values: Values) -> bool | None:
    """None if the run cannot be read, which the command then says."""
    from recprism.runs.run import Run

    with suppress(RecprismError, OSError):
        return Run.open(values["run_directory"], values["name"]).is_diversified()
    return None


def _must_keep(values: Values) -> bool | None:
    """Whether lists must keep constraints; None if the run cannot be read, which the command then says."""
    from recprism.runs.run import Run

    with suppress(RecprismError, OSError):
        asked = Run.open(values["run_directory"], values["name"]).constraints
        return bool(asked.model_dump(exclude_defaults=True)) and not asked.allow_violations
    return None


# -- the table --------------------------------------------------------------------------------------------------------

CATEGORIES = "categories category_column category_separator category_level"
BY_COLUMN = _with("--category-column", "category_column", "category_separator category_level", otherwise="categories")
BY_PRESET = _either(
    lambda it: _has(it, "min_user") and _has(it, "min_item"),
    "with both --min-user and --min-item",
    "",
    "without --min-user or --min-item",
    "preset",
)

PARAMETERS = {
    "budgets": "budget",
    "confidence": "",
    "vectors": "no_vectors",
    "histories": "with_histories",
}
"""Option of a form -> the parameters of the command that set it, where their names differ."""

COMMANDS: dict[str, tuple[Choice, ...] | Callable[[], tuple[Choice, ...]]] = {
    "data stats": (_of_data("source"), BY_COLUMN, BY_PRESET),
    "features": (
        (
            Mode("for reviews", "top clusters min_mentions max_share show", lambda it: _has(it, "reviews")),
            Mode("with --tuples", "columns top clusters show", lambda it: _has(it, "tuples")),
            Mode("with --attributes", "columns", lambda it: _has(it, "attributes")),
        ),
    ),
    "train": (
        _of_data("data"),
        BY_COLUMN,
        BY_PRESET,
    ),
    "import": (
        _with(
            "--scores",
            "scores",
            otherwise="user_vectors item_vectors user_ids item_ids user_key item_key user_bias item_bias metric",
        ),
        _with("--held-out", "held_out", otherwise="set_aside"),
        _with("--interactions", "interactions", "set_aside"),
        _either(
            lambda it: _has(it, "interactions", "held_out"),
            "with --interactions or --held-out",
            "threshold",
            "without --interactions and --held-out",
        ),
        _either(
            lambda it: it["set_aside"] > 0 or _has(it, "held_out"),
            "with --held-out or --set-aside",
            "seed",
            "without --held-out and --set-aside",
        ),
        BY_COLUMN,
    ),
    "evaluate": (
        _with("--against", "against", "against_name"),
        _either(
            lambda it: it["bootstrap"] > 0 or _has(it, "against"),
            "with --bootstrap above 0 or --against",
            "seed",
            "with --bootstrap 0 and without --against",
        ),
    ),
    "evaluate-lists": (
        _with("--run", "run", "part", otherwise=f"held_out train items catalogue_size {CATEGORIES}"),
        BY_COLUMN,
        _either(
            lambda it: _has(it, "run", "held_out"),
            "with --run or --held-out",
            "missing",
            "without --run and --held-out",
        ),
        _either(lambda it: it["bootstrap"] > 0, "with --bootstrap above 0", "seed", "with --bootstrap 0"),
    ),
    "recommend": (
        _with("--judged", "judged", "part"),
        (
            Mode("for a result that must keep constraints", "allow_violations", lambda it: _must_keep(it) is True),
            Mode("for a result without such constraints", "", lambda it: _must_keep(it) is False),
        ),
    ),
    "audit": (_with("--form", "form", otherwise="executor"),),
    "why": (_with("--judged", "judged", "part"),),
    "explain-lists": (
        _with("--scores", "scores", f"train items {CATEGORIES}", otherwise="run part"),
        BY_COLUMN,
    ),
    "search": (
        (
            Mode("with marginal credit", "relevance", _has_credit("marginal", ("default",))),
            Mode("with shared credit", "accuracy", _has_credit("shared", ("shared", "paper"))),
        ),
    ),
    "erase": (
        _with("--json", "as_json", otherwise="curve"),
        _either(lambda it: it["controls"] > 0, "with --controls above 0", "top", "with --controls 0"),
    ),
    "export": _by_form,
    "batch": (
        _either(
            lambda it: it["executor"] == "local",
            "with --executor local",
            "device",
            "with --executor ray",
        ),
    ),
    "serve": (_with("--log", "log", "log_users"), _with("--holdout", "holdout", "holdout_price")),
    "check": (_with("--measured", "measured", otherwise="confidence"),),
    "monitor-log": (
        _with("--taken", "taken", "max_hit_loss columns"),
        _either(
            lambda it: _has(it, "certify"),
            "with --certify",
            "outcomes window confidence",
            "without --certify",
            "taken floor max_fallbacks max_unmet max_milliseconds holdout_share",
        ),
    ),
    "report": (
        (
            Mode("for a diversified run", "draws seed", lambda it: _is_diversified(it) is True),
            Mode("for a run that was only trained", "", lambda it: _is_diversified(it) is False),
        ),
    ),
}
"""Command -> what options depend on; the others have an effect in every mode. tests/cli/test_modes.py names those."""
