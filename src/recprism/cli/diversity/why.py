"""recprism why: the reasons of one user's list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title
from recprism.cli._values import finite_number
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.explain.reasons.reason import Reason, WhatIf
    from recprism.runs.run import Run

FORM = "without=ITEM, ban=CATEGORY, price=TRADE_OFF, seen=ITEM or forget=ITEM"


def why(
    run_directory: options.DiversifiedRun,
    user: Annotated[str, typer.Option(help="The user whose list is explained.")],
    item: Annotated[str | None, typer.Option(help="Explain this item of the list alone, part by part.")] = None,
    why_not: Annotated[
        str | None, typer.Option("--why-not", metavar="ITEM", help="Explain why this item is not in the list.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", metavar="CHANGE", help=f"Run the rule again after a change, {FORM}. Repeatable."),
    ] = None,
    judged: options.Judged = False,
    part: options.ListPart = None,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Give the reason of every item of one user's list.

    The reasons are those of the rule itself. The list is the live one, as `recprism recommend` shows it. With --judged
    it is the list that `recprism evaluate` judges. --item, --why-not and --what-if ask one question instead.

    Examples:

    - `recprism why runs/x --user 17`
    - `recprism why runs/x --user 17 --item 2081`
    - `recprism why runs/x --user 17 --why-not 318`
    - `recprism why runs/x --user 17 --what-if ban=Drama`
    """
    from recprism.runs.jobs.reasons import reasons_of
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if sum(it is not None for it in (item, why_not, what_if)) > 1:
        raise InputError("--item, --why-not and --what-if are separate questions; give one of them")
    run = Run.open(run_directory, name)
    about = reasons_of(run, user, part=part_named(part or "test"), live=not judged)
    title: Callable[[Any], str] = about.name
    shown = options.lists_in(judged, part or "test")
    if why_not is not None:
        refused = about.why_not(why_not)
        _print_one(as_json, run, shown, refused, (refused.sentence(title), refused.for_users(title)))
    elif item is not None:
        reason = about.why(item)
        _print_one(as_json, run, shown, reason, (reason.sentence(title), reason.for_users(title)))
        if not as_json:
            _print_parts(reason, title)
    elif what_if is not None:
        other = about.what_if(**_changes(what_if))
        _print_one(as_json, run, shown, other, (other.sentence(title),))
        if not as_json:
            _print_change(other, title)
    else:
        reasons = about.why_list()
        if as_json:
            found = [
                {**it.to_dict(), "sentence": it.sentence(title), "for_users": it.for_users(title)} for it in reasons
            ]
            print_json({"run": str(run.path), "user": user, "live": not judged, "reasons": found})
            return
        print_title(f"{run.argument}: why these items, for user {user} ({shown})")
        rows = [
            (it.place, title(it.item), it.rank, "new" if it.newcomer else "stayed", it.for_users(title))
            for it in reasons
        ]
        print_table(("place", "item", "rank by relevance", "", "reason"), rows, numeric=("place", "rank by relevance"))
        first = next((it for it in reasons if it.newcomer), reasons[0])
        next_step(run.command("why", user=user, item=first.item, judged=judged, part=part))


def _print_one(as_json: bool, run: Run, shown: str, found: Any, sentences: Sequence[str]) -> None:
    if as_json:
        print_json({"run": str(run.path), "lists": shown, **found.to_dict(), "sentences": list(sentences)})
        return
    print_title(f"{run.argument}: {shown}")
    for sentence in sentences:
        print_sentence(sentence)


def _print_parts(reason: Reason, name: Callable[[Any], str]) -> None:
    """Print what the item adds, and the difference from the runner-up and the replaced item, part by part in points."""
    others = {f"against {name(it.item)}": it.parts for it in (reason.replaced, reason.runner_up) if it is not None}
    columns = {"adds to the list": reason.adds or {}, **others}
    parts = [part for part in next(iter(columns.values())) if any(of.get(part) for of in columns.values())]
    rows = [(part, *(_points(of.get(part, 0.0)) for of in columns.values())) for part in parts]
    rows.append(("together", *(_points(sum(of.values())) for of in columns.values())))
    print_table(("points", *columns), rows, numeric=tuple(columns))


def _points(value: float) -> str:
    return f"{round(100 * value, 2) + 0.0:+.2f}"


def _print_change(found: WhatIf, name: Callable[[Any], str]) -> None:
    pairs = zip(found.before, found.after, strict=False)
    rows = [(at + 1, *(name(it) for it in pair)) for at, pair in enumerate(pairs)]
    print_table(("place", "before", "after"), rows, numeric=("place",))


def _changes(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not value or key not in ("without", "ban", "price", "seen", "forget"):
            raise InputError(f"--what-if {word}: write {FORM}")
        if key in found:
            raise InputError(f"--what-if {key} is given twice; give it once")
        found[key] = finite_number(value, f"--what-if {word}", FORM) if key == "price" else value
    return found
