"""Answers about one user: history, lists, reasons, dials, and what would change the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.forms.steering import own_settings, steer
from recprism.result.reasons import UserReasons
from recprism.studio import commands, schemas
from recprism.studio.view import Change, View

MOST_HISTORY = 200
BY_PLAYERS = "Players found this change, and no rule made its lists: there are no reasons to show."
UNCHANGED = "These are the lists of the trained model; nothing was changed, so there is nothing to explain."
NO_DIALS = "There are no sliders here: they need a rule, categories of the items, and a model by inner product."


def answer(view: View, change: Change, user: str, *, live: bool = True) -> schemas.UserAnswer:
    """Return a user's history, lists before and after, and dials. Reasons are another question: they take longer."""
    row = view.user_row(user)
    before, after = change.lists_of(row, live=live)
    dials = _dials(view, change, row, live)
    return schemas.UserAnswer.model_construct(
        user=view.ids[row],
        what=change.label,
        live=live,
        note=_note(change),
        before=view.entries(before, after, "gone"),
        after=view.entries(after, before, "new"),
        history=_history(view, change.context(live=live).seen, row),
        dials=dials,
        dials_note="" if dials else NO_DIALS,
        command=commands.why(view.run, view.ids[row], judged=not live) if change.point is None else "",
    )


def reasons(view: View, change: Change, user: str, *, live: bool = True) -> schemas.ReasonsAnswer:
    """Return the reason of every new item, in the words for the user."""
    row = view.user_row(user)
    found = change.reasons_of(row, live=live)
    named = [schemas.ItemReason(id=view.catalogue.ids[item], reason=said) for item, said in found.items()]
    return schemas.ReasonsAnswer(user=view.ids[row], reasons=named)


def why(view: View, change: Change, user: str, item: str, *, live: bool = True) -> schemas.Said:
    """Explain one item of the list or outside it, with its price."""
    row, number = view.user_row(user), view.item_row(item)
    about = _about(view, change, row, live)
    inside = number in change.lists_of(row, live=live)[1]
    found = about.why(item) if inside else about.why_not(item)
    option = {"item": item} if inside else {"why_not": item}
    said = (found.for_users(about.name), found.sentence(about.name))
    return _said(view, change, row, said, {**option, "judged": not live}, item=view.item(number), inside=inside)


def what_if(view: View, change: Change, user: str, what: str, item: str, *, live: bool = True) -> schemas.WhatIfAnswer:
    """Run the rule again without an item of the list, or with an item of the history left out."""
    row, number = view.user_row(user), view.item_row(item)
    about = _about(view, change, row, live)
    found = about.what_if(**{what: item})
    before, after = (_numbers(view, it) for it in (found.before, found.after))
    question = {"what_if": f"{what}={item}", "judged": not live}
    said = _said(view, change, row, (found.sentence(about.name),), question, view.item(number))
    return schemas.WhatIfAnswer(**said.model_dump(), after=view.entries(after, before, "new"))


def steered(
    view: View, change: Change, user: str, settings: Mapping[str, float], *, live: bool = True
) -> schemas.SteerAnswer:
    """Return the user's list with dials set."""
    if change.point is not None:
        raise InputError("sliders set the dials of the run's result; show the result instead of a stop of the path")
    row = view.user_row(user)
    about = change.result.context(live=live), change.result.own_rule()
    found = steer(*about, view.ids[row], settings, change.result.steering)
    base = change.lists_of(row, live=live)[0]
    return schemas.SteerAnswer.model_construct(
        user=view.ids[row],
        settings=dict(found.settings),
        before=view.entries(base, found.after, "gone"),
        after=view.entries(found.after, base, "new"),
        values=[schemas.Measured(name=name, before=it[0], after=it[1]) for name, it in found.values.items()],
        command=commands.steer(view.run, view.ids[row], settings, judged=not live),
    )


def _said(
    view: View,
    change: Change,
    row: int,
    sentences: tuple[str, ...],
    question: Mapping[str, Any],
    item: schemas.Item,
    inside: bool = True,
) -> schemas.Said:
    command = commands.why(view.run, view.ids[row], **question) if change.point is None else ""
    return schemas.Said(user=view.ids[row], item=item, inside=inside, sentences=list(sentences), command=command)


def _about(view: View, change: Change, row: int, live: bool) -> UserReasons:
    """Return what answers questions about one list."""
    rule = change.result.rule
    if rule is None:
        raise InputError(_note(change))
    return UserReasons(change.context(live=live), rule, view.ids[row], view.catalogue.titles, live)


def _note(change: Change) -> str:
    if change.point or (change.point is None and change.result.rule is not None):
        return ""
    return BY_PLAYERS if change.point is None and change.result.is_changed else UNCHANGED


def _dials(view: View, change: Change, row: int, live: bool) -> list[schemas.Dial]:
    """Compile the dials of a user, next to the user's own settings; none where a result cannot have any."""
    if change.point is not None:
        return []
    own, shares = own_settings(change.result.steering, view.ids[row]), change.dials_of(row, live=live)
    return [schemas.Dial.model_construct(name=name, share=it, own=own.get(name, 0.0)) for name, it in shares.items()]


def _history(view: View, seen: SparseRows, row: int) -> schemas.History:
    taken = seen.row(row)
    rows = view.categories.items.take_rows(taken) if len(taken) and len(view.categories) else None
    counts = np.zeros(len(view.categories), int) if rows is None else rows.col_counts
    most = [int(it) for it in np.argsort(-counts, kind="stable")[:5] if counts[it]]
    return schemas.History.model_construct(
        total=len(taken),
        categories=[(view.categories.names[it], int(counts[it])) for it in most],
        items=[view.item(int(it)) for it in taken[:MOST_HISTORY]],
    )


def _numbers(view: View, ids: tuple[Any, ...]) -> NDArray[np.int64]:
    return np.array([view.item_row(str(it)) for it in ids], np.int64)
