"""Usage errors in one sentence, like any other error."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import typer

UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""The class of every usage error: of click, or of the copy of it that newer versions of typer have."""

PHRASES = (
    (r"Input should be a valid integer.*", "write a whole number"),
    (r"Input should be a valid number.*", "write a number"),
    (r"Input should be greater than or equal to (\S+)", r"write a number of at least \1"),
    (r"Input should be less than or equal to (\S+)", r"write a number of at most \1"),
)

MOVED = {
    f"{command} --{option}": now
    for command, options, now in (
        ("explain", "user item why-not what-if judged", "why"),
        ("explain", "lists base", "explain-lists"),
        ("evaluate", "run held-out train items catalogue-size missing", "evaluate-lists"),
        ("audit", "held-out train items", "evaluate-lists"),
        ("monitor", "served taken max-fallbacks max-unmet max-milliseconds max-hit-loss holdout-share", "monitor-log"),
        ("experiment", "holdout click-rate change requests-per-day", "holdout"),
        ("erase", "user item", "changes"),
        ("train", "resume", "resume"),
        ("search", "resume", "resume"),
    )
    for option in options.split()
}
"""A command with an option that it had before version 0.3 -> the command that does the same."""

RENAMED = {
    "--subtopics": "--categories",
    "--subtopic-column": "--category-column",
    "--subtopic-separator": "--category-separator",
    "--subtopic-level": "--category-level",
}
"""The name of an option before version 0.3 -> its name now, in every command that has it."""

GONE = {
    "interleave": "a mixture of two lists cannot show what a diverse list is worth; use `recprism holdout`",
    "score-clicks": "a mixture of two lists cannot show what a diverse list is worth; use `recprism holdout`",
    "doctor": "`recprism data list` shows where data is; a command says which package it misses",
    "compare": "it is `python benchmarks/compare.py` of the repository now; `recprism frontier` compares on one run",
    "--ordered": "`recprism export --form user-vectors` returns lists in the order of the rule",
    "--rest": "`recprism export --form user-vectors` returns the lists that weights do not",
    "--concepts": "dials and choice models are about the categories of the run",
    "--scores": "`recprism import --scores` makes a run of them, for --run",
    "--min-support": "dials and choice models are about the categories of the run",
}
"""A command or an option of version 0.2 that is gone -> why, or what to use."""


def usage_sentence(error: Any) -> str:
    """Say what is wrong with the words of a command line, and what to do."""
    if isinstance(error, typer.BadParameter) and error.message:
        return _refused(error)
    if isinstance(error, typer.BadParameter):
        problem = f"{parameter_name(error.param)} is missing"
    elif hasattr(error, "possibilities"):
        problem = f"there is no option {error.option_name}"
        if moved := MOVED.get(f"{error.ctx.info_name} {error.option_name}"):
            return f"{problem}; use `recprism {moved}` instead"
        if (now := RENAMED.get(error.option_name)) in _options(error):
            return f"{problem}; it is {now} now"
        if gone := GONE.get(error.option_name):
            return f"{problem} any more: {gone}"
        problem += _nearest(error.option_name, _options(error))
    else:
        said = str(error.format_message()).rstrip(".").replace(". Did you", "; did you")
        if gone := next((why for name, why in GONE.items() if f"command '{name}'" in said), None):
            return f"this command is gone: {gone}"
        problem = said[:1].lower() + said[1:]
    return problem if problem.endswith("?") else f"{problem}; see `{_command(error)} --help`"


def _refused(error: Any) -> str:
    """A value of the wrong kind, or out of range."""
    said = error.message.rstrip(".")
    for pattern, phrase in PHRASES:
        said = re.sub(pattern, phrase, said)
    return f"{parameter_name(error.param)}: {said}"


def parameter_name(param: Any) -> str:
    """The longest form of an option, an argument in capitals."""
    return max(param.opts, key=len) if param.param_type_name == "option" else str(param.metavar or param.name).upper()


def _options(error: Any) -> list[str]:
    return [word for param in error.ctx.command.params for word in param.opts if word.startswith("--")]


def _nearest(word: str, known: list[str]) -> str:
    found = get_close_matches(word.strip("-"), [it.strip("-") for it in known], n=1)
    return f"; did you mean --{found[0]}?" if found else ""


def _command(error: Any) -> str:
    return "recprism" if error.ctx is None else str(error.ctx.command_path)
