"""recprism explain: why the lists are as they are, for all users, one user, or lists from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import (
    AsJson,
    ColumnMap,
    Draws,
    ItemTable,
    Judged,
    Part,
    ResultName,
    Seed,
    SubtopicColumn,
    SubtopicLevel,
    SubtopicSeparator,
    SubtopicTable,
    lists_in,
)
from recprism.cli._output import (
    if_storable,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
)
from recprism.cli._values import LIST_COLUMNS, category_columns, column_map, comma_words, finite_number, part_option
from recprism.data.shares import percent
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.dials.lift_reasons import LiftReason
    from recprism.explain.accounting import Account
    from recprism.explain.choice.model import ChoiceModel
    from recprism.explain.reasons.reason import Reason, WhatIf
    from recprism.runs.run import Run

FORM = "without=ITEM, ban=CATEGORY, price=TRADE_OFF, seen=ITEM or forget=ITEM"
LISTS = "Lists from files"
MOST_LIFTS = 20


def explain(
    run_directory: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run that `diversify`, `refit` or `search` has changed.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Explain one user's list, item by item.")] = None,
    item: Annotated[str | None, typer.Option(help="With --user: why this item is in the list.")] = None,
    why_not: Annotated[
        str | None, typer.Option("--why-not", metavar="ITEM", help="With --user: why this item is not.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if", metavar="CHANGE", help=f"With --user: run the rule again after a change, {FORM}. Repeatable."
        ),
    ] = None,
    lists: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Explain lists of any method: user_id, item_id, rank.", rich_help_panel=LISTS
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The lists before, with the same columns.",
            show_default="the best items by score",
            rich_help_panel=LISTS,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="A trained run with the scores, categories and histories.", rich_help_panel=LISTS
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="user_id, item_id, score of the candidates, instead of a run.", rich_help_panel=LISTS
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --scores: user_id, item_id of the users' history.", rich_help_panel=LISTS
        ),
    ] = None,
    items: ItemTable = None,
    subtopics: SubtopicTable = None,
    subtopic_column: SubtopicColumn = None,
    subtopic_separator: SubtopicSeparator = None,
    subtopic_level: SubtopicLevel = None,
    columns: ColumnMap = None,
    concepts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help="With --run: what the model knows about items, with commas between: categories, clusters=20, a column "
            "of text of the run's items, or a file.",
            show_default="categories",
            rich_help_panel=LISTS,
        ),
    ] = None,
    draws: Draws = 199,
    judged: Judged = False,
    part: Part = "test",
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Explain why the lists are as they are, and test the explanation.

    The lists of `recprism diversify` follow a rule: relevance, plus a price for what the list lacks. The command shows
    what the rule does over all users. A choice model then tests whether categories explain the choice on users that it
    was not fitted on, next to the same model with shuffled categories.

    With --user, it gives the reason of every item of one list, from the rule itself: of the live list, as `recprism
    recommend` shows it, or of the judged one. With --lists, it explains the lists of any other method.

    Examples:

    - `recprism explain runs/x`
    - `recprism explain runs/x --user 17`
    - `recprism explain runs/x --user 17 --why-not 318`
    - `recprism explain runs/x --user 17 --what-if ban=Drama`
    - `recprism explain --lists new.csv --base old.csv --run runs/x`
    - `recprism explain --lists new.csv --scores scores.csv --items items.csv --subtopic-column genres`
    """
    if lists is not None:
        categories = category_columns(subtopic_column, subtopic_separator, subtopic_level)
        files = (items, subtopics, train, categories)
        _explain_lists(run, lists, base, scores, files, columns, concepts, part, draws, seed, as_json)
        return
    if run_directory is None:
        raise InputError("name a run, or lists with --lists FILE")
    from recprism.runs.run import Run

    found = Run.open(run_directory, name)
    if user is None:
        if item is not None or why_not is not None or what_if is not None:
            raise InputError("--item, --why-not and --what-if are about one user's list; add --user ID")
        _explain_run(found, draws, part, seed, as_json)
        return
    if sum(it is not None for it in (item, why_not, what_if)) > 1:
        raise InputError("--item, --why-not and --what-if are separate questions; give one of them")
    _explain_user(found, user, part, judged, as_json, item=item, why_not=why_not, what_if=what_if)


# -- all users --------------------------------------------------------------------------------------------------------


def _explain_run(run: Run, draws: int, part: str, seed: int, as_json: bool) -> None:
    from recprism.runs.jobs.explain import explain_run, facts_to_keep
    from recprism.runs.jobs.train import part_named

    path = None
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            found = explain_run(run, part=part_named(part), draws=draws, seed=seed, on_step=on_step)
        with if_storable(), saving():
            path = run.save_explanation(facts_to_keep(found, part=part, draws=draws, seed=seed))
    if as_json:
        print_json({"run": str(run.path), "part": part, **found.to_dict()})
        return
    print_title(f"{run.argument}: why the lists are as they are ({lists_in(True, part)})")
    for sentence in found.sentences():
        print_sentence(sentence)
    if found.account is not None:
        _print_account(found.account)
    if found.lifts:
        _print_lifts(found.lifts)
    if found.choice_model is not None:
        _print_coefficients(found.choice_model)
    if path is not None:
        say(f"kept in {path}")
    if found.rule is None:
        next_step(run.command("erase", part=part_option(part)))
    elif not found.lifts:
        next_step(run.command("explain", user=run.split().user_ids[0]))


def _print_lifts(lifts: Sequence[LiftReason]) -> None:
    """Print the items with the largest lifts; --json has all."""
    rows = [(it.item, it.shown_before, it.shown_now, percent(it.range_share, ".1f", "%")) for it in lifts[:MOST_LIFTS]]
    columns = ("lifted item", "lists before", "lists now", "share of the candidates' score range")
    print_table(columns, rows, numeric=columns[1:])


def _print_account(account: Account) -> None:
    prices = account.prices
    goals = tuple(account.rule.goals)
    columns = (
        "trade-off",
        *(f"{goal} gained" for goal in goals),
        "relevance",
        "users with other items",
        "new items a list",
    )
    rows = [
        (
            f"{row.trade_off:g}",
            *(f"{row.gains[goal]:+.4f}" for goal in goals),
            f"{row.relevance_change:+.4f}",
            percent(row.users_changed, ".0f", "%"),
            f"{row.swaps:.2f}",
        )
        for row in prices
    ]
    print_table(columns, rows, numeric=columns)
    columns = ("category", "of candidates", "base lists with it", "lists with it", *(f"gain of {it}" for it in goals))
    table = [
        (
            row.category,
            *(percent(it, ".0f", "%") for it in (row.candidates, row.base_lists, row.lists[-1])),
            *(f"{row.gain[goal][-1]:+.4f}" for goal in goals),
        )
        for row in account.categories
    ]
    print_table(columns, table, numeric=columns[1:])
    by_scores = [it.name for it in account.rule.goal.terms if it.search is not None and it.search.by_relevance]
    if by_scores:
        print_sentence(f"Gains of {by_scores[0]} are counted by scores, as the rule counts them, and not by labels.")


def _print_coefficients(model: ChoiceModel) -> None:
    columns = ("choice model", "standardised", "standard error", "worth in score")
    rows = [
        (it.feature, f"{it.standardised:+.2f}", f"{it.error:.2f}", percent(it.worth, "+.1f", "%"))
        for it in model.coefficients
    ]
    print_table(columns, rows, numeric=columns[1:])


# -- one user ---------------------------------------------------------------------------------------------------------


def _explain_user(
    run: Run,
    user: str,
    part: str,
    judged: bool,
    as_json: bool,
    *,
    item: str | None,
    why_not: str | None,
    what_if: Sequence[str] | None,
) -> None:
    from recprism.runs.jobs.reasons import reasons_of
    from recprism.runs.jobs.train import part_named

    about = reasons_of(run, user, part=part_named(part), live=not judged)
    name: Callable[[Any], str] = about.name
    shown = lists_in(judged, part)
    if why_not is not None:
        refused = about.why_not(why_not)
        _print_one(as_json, run, shown, refused, (refused.sentence(name), refused.for_users(name)))
    elif item is not None:
        reason = about.why(item)
        _print_one(as_json, run, shown, reason, (reason.sentence(name), reason.for_users(name)))
        if not as_json:
            _print_parts(reason, name)
    elif what_if is not None:
        other = about.what_if(**_changes(what_if))
        _print_one(as_json, run, shown, other, (other.sentence(name),))
        if not as_json:
            _print_change(other, name)
    else:
        reasons = about.why_list()
        if as_json:
            found = [{**it.to_dict(), "sentence": it.sentence(name), "for_users": it.for_users(name)} for it in reasons]
            print_json({"run": str(run.path), "user": user, "live": not judged, "reasons": found})
            return
        print_title(f"{run.argument}: why these items, for user {user} ({shown})")
        rows = [
            (it.place, name(it.item), it.rank, "new" if it.newcomer else "stayed", it.for_users(name)) for it in reasons
        ]
        print_table(("place", "item", "rank by relevance", "", "reason"), rows, numeric=("place", "rank by relevance"))
        first = next((it for it in reasons if it.newcomer), reasons[0])
        next_step(run.command("explain", user=user, item=first.item, judged=judged, part=part_option(part)))


def _print_one(as_json: bool, run: Run, shown: str, found: Any, sentences: Sequence[str]) -> None:
    if as_json:
        print_json({"run": str(run.path), "lists": shown, **found.to_dict(), "sentences": list(sentences)})
        return
    print_title(f"{run.argument}: {shown}")
    for sentence in sentences:
        print_sentence(sentence)


def _print_parts(reason: Reason, name: Callable[[Any], str]) -> None:
    """Print what the item adds, and the difference from the runner-up and the replaced item, part by part."""
    others = {f"against {name(it.item)}": it.parts for it in (reason.replaced, reason.runner_up) if it is not None}
    columns = {"adds to the list": reason.adds or {}, **others}
    parts = [part for part in next(iter(columns.values())) if any(of.get(part) for of in columns.values())]
    rows = [(part, *(f"{of.get(part, 0.0):+.4f}" for of in columns.values())) for part in parts]
    rows.append(("together", *(f"{sum(of.values()):+.4f}" for of in columns.values())))
    print_table(("part of the objective", *columns), rows, numeric=tuple(columns))


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


# -- lists from files -------------------------------------------------------------------------------------------------


def _explain_lists(
    run_directory: Path | None,
    lists: Path,
    base: Path | None,
    scores: Path | None,
    files: tuple[Any, ...],
    columns: list[str] | None,
    concepts: list[str] | None,
    part: str,
    draws: int,
    seed: int,
    as_json: bool,
) -> None:
    from recprism.runs.jobs.explain_lists import explain_lists_of_run, explain_lists_with_scores
    from recprism.runs.jobs.list_files import SideFiles
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if (run_directory is None) == (scores is None):
        raise InputError("--lists needs a run with --run RUN, or scores with --scores FILE; give one of the two")
    mapped = column_map(columns, (*LIST_COLUMNS, "score"))
    with progress_of_steps() as on_step:
        if run_directory is not None:
            run = Run.open(run_directory)
            words = comma_words(concepts or [], "--concepts")
            about: dict[str, Any] = {"columns": mapped, "concepts": words, "draws": draws, "seed": seed}
            found = explain_lists_of_run(lists, base, run, part=part_named(part), on_step=on_step, **about)
        else:
            items, subtopics, train, categories = files
            side = SideFiles(None, train, subtopics, items, categories, columns=mapped)
            found = explain_lists_with_scores(lists, base, scores or "", side, draws=draws, seed=seed, on_step=on_step)
    if as_json:
        print_json({"lists": str(lists), "choice_model": found.to_dict()})
        return
    print_title(f"{lists}: what explains these lists{f' ({lists_in(True, part)})' if run_directory else ''}")
    for sentence in (*found.model.sentences(), *found.notes):
        print_sentence(sentence)
    _print_coefficients(found.model)
