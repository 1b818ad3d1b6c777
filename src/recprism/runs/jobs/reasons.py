"""The reasons of one user's list in a run."""

from __future__ import annotations

from typing import Any

from recprism.data.split import Part
from recprism.errors import InputError
from recprism.result.catalogue import titles_of
from recprism.result.reasons import UserReasons
from recprism.runs.run import Run


def reasons_of(run: Run, user: Any, *, part: Part = "test", live: bool = True) -> UserReasons:
    """Return what answers questions about one user's list.

    Args:
        run: A run that `recprism diversify` has changed.
        user: Id of the user.
        part: The part that judged lists are made for.
        live: Whether the list is the live one; else the judged one.

    Raises:
        InputError: If no rule made the lists, or the user is unknown.
    """
    found = run.load_result(part)
    if found.rule is None:
        raise InputError(
            f"{run.path}: players found this change, and no rule made its lists; `recprism erase {run.argument}` looks "
            "at its factors"
        )
    problem = found.context(live=live)
    own = problem.split.user_ids[found.rows_of([user])].tolist()[0]
    return UserReasons(problem, found.rule, own, titles_of(run.items()), live)
