"""The last guard: an unforeseen error becomes one sentence and a log file to send."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import traceback

from recprism.runs.installation import versions

SECRETS = ("--token", "--mlflow")
"""Options whose values are left out of the log."""


def crash_sentence(problem: BaseException) -> str:
    """Write a log with the traceback, the command line and all versions; return the sentence that names it."""
    lines = str(problem).splitlines()
    what = f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
    try:
        number, path = tempfile.mkstemp(prefix="recprism-", suffix=".log")
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(_log(problem))
    except OSError:
        return f"unexpected {what}; no log could be written, so please report this line and the command"
    return f"unexpected {what}; this is a fault of recprism, so please report it with the log {path}"


def _log(problem: BaseException) -> str:
    used = "\n".join(f"{name} {version}" for name, version in versions().items())
    return f"{shlex.join(_without_secrets(sys.argv))}\n\n{used}\n{sys.platform}\n\n" + "".join(
        traceback.format_exception(problem)
    )


def _without_secrets(words: list[str]) -> list[str]:
    """The command line without the values of secret options."""
    found = []
    for before, word in zip(["", *words], words, strict=False):
        name = word.partition("=")[0]
        found.append("..." if before in SECRETS else f"{name}=..." if name in SECRETS and "=" in word else word)
    return found
