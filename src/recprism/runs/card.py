"""The model card of a run (CARD.md): data, model, metrics, certificate, limits and licences.

Everything in it is read from the run directory; nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from recprism.data.datasets import NAMED
from recprism.data.labels import SET_ASIDE
from recprism.models import Factors
from recprism.runs._long_tables import PARTS
from recprism.runs.config import BudgetConfig, DataConfig, DiversifyConfig, RunConfig
from recprism.runs.event_log import STEPS
from recprism.runs.installation import versions
from recprism.runs.parts.lists import DIVERSIFIED
from recprism.runs.run import Run

FILES = ("data_root", "source", "categories", "items")
"""Settings that are paths on one machine: a card names the file without its folder, or nothing."""
BEFORE = "Lists of the trained model, measured before they were diversified; `recprism evaluate RUN` measures again."


def write_card(run: Run, metrics: pl.DataFrame | None = None, about: str | None = None) -> None:
    """Write CARD.md again.

    Args:
        run: The run.
        metrics: Rows of an evaluation that was just made; by default those of metrics.parquet, if it exists.
        about: Whose lists the rows judge.
    """
    run.save_card(card(run, metrics, about))


def card(run: Run, metrics: pl.DataFrame | None = None, about: str | None = None) -> str:
    """Return the text of the card; arguments as in :func:`write_card`."""
    config = run.config
    sections = {
        "Data": _data(run, config),
        "Model": _model(run, config),
        "Metrics": _metrics(run, metrics, about),
        "Diversified": _diversified(run, config),
        "Limits": _limits(run, config),
        "Licences": _licences(config.data),
        "Versions": _table(versions()),
    }
    head = f"# {_cell(_name(config.data.source))}, {config.model.name}\n\nModel card of a recprism run{_when(run)}.\n"
    return head + "".join(f"\n## {title}\n\n{text}\n" for title, text in sections.items())


def _data(run: Run, config: RunConfig) -> str:
    split, categories = run.split(), run.categories()
    without = f", {categories.items_without:,} items without any" if categories.items_without else ""
    counts = {
        "users": f"{split.n_users:,}",
        "items": f"{split.n_items:,}",
        "categories": f"{len(categories):,}{without}",
        **{f"interactions, {name}": f"{len(split.part(name)):,}" for name in PARTS},
    }
    cleaned = _preparation(run)
    asked = config.data.model_dump(exclude_none=True, exclude={*FILES, *cleaned}, exclude_defaults=True)
    division = {"split": config.split.method, **{f"share of {n}": v for n, v in config.split.options().items()}}
    return _table({"source": _title(config.data.source), **counts, **division, **asked, **cleaned})


def _preparation(run: Run) -> dict[str, Any]:
    """Return how the data were cleaned, as the loader noted it."""
    loaded = [event for event in run.events(without=STEPS) if event["event"] == "data"]
    return dict(loaded[-1].get("preparation") or {}) if loaded else {}


def _model(run: Run, config: RunConfig) -> str:
    if not run.has_factors():
        return f"{config.model.name}, not trained yet: `recprism resume RUN`."
    factors = run.base()
    if not isinstance(factors, Factors):
        scored = {"users": f"{factors.n_users:,}", "scores per user": f"at most {factors.items.shape[1]:,}"}
        return _table({"model": f"{config.model.name}, made elsewhere", "seed": config.seed, **scored})
    known = {name: value for name, value in factors.settings.items() if not isinstance(value, Mapping)}
    made_with = {"trained with recprism": known.pop("version", None)}
    size = {"user vectors": f"{factors.n_users:,}", "item vectors": f"{factors.n_items:,}", "factors": factors.dim}
    return _table(
        {"model": config.model.name, "preset": config.model.preset, **known, "seed": config.seed, **size, **made_with}
    )


def _metrics(run: Run, metrics: pl.DataFrame | None, about: str | None) -> str:
    if metrics is None:
        if run.measured() is None:
            return "Not measured yet: `recprism evaluate RUN`."
        metrics, about = run.metrics(), about or _earlier(run)
    rows = (
        (f"{row['metric']}@{row['k']}", f"{row['mean']:.4f}", _interval(row), f"{row['n_users']:,}", _popular(row))
        for row in metrics.to_dicts()
    )
    lead = f"{about}\n\n" if about else ""
    return lead + _rows(("metric", "value", "95 % interval", "users", "popularity"), rows)


def _popular(row: Mapping[str, Any]) -> str:
    """Return the value of lists of the most popular items; empty if popularity is unknown."""
    return "" if row.get("popularity") is None else f"{row['popularity']:.4f}"


def _earlier(run: Run) -> str:
    whose = "The diversified lists" if run.measured() == DIVERSIFIED else "Lists of the trained model"
    return f"{whose}, as they were measured last."


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None or row["high"] is None else f"{row['low']:.4f} to {row['high']:.4f}"


def _diversified(run: Run, config: RunConfig) -> str:
    if config.diversify is None:
        return "No: the lists are those of the trained model."
    return _search(run, config.diversify)


def _search(run: Run, asked: DiversifyConfig) -> str:
    if asked.within is not None:
        return _within(run, asked.within)
    found = run.load_result()
    rewarded = None if found.vectors is None else found.vectors.settings["reward_on"]
    facts = {"goal": found.towards, "reward from": rewarded}
    wanted = {"preset": asked.preset, **asked.settings}
    return _table({**facts, **wanted}) + "\n\nNo budget was given, so nothing about the price is certified."


def _within(run: Run, asked: BudgetConfig) -> str:
    kept = run.joint_certificate()
    assert kept is not None  # a budget was given
    budgets = ", ".join(f"{100 * share:g} % of {metric}" for metric, share in asked.budgets.items())
    where = f"the {kept.part or asked.certify_on or 'test'} part"
    facts = {"goal": asked.goal, "may lose": budgets, "certified on": where}
    constraints = asked.constraints.model_dump(exclude_defaults=True)
    return _table({**facts, **constraints}) + f"\n\n{kept.sentence()}\n\n{kept.scope()}"


def _limits(run: Run, config: RunConfig) -> str:
    has = "vectors" if not run.has_factors() or run.has_vectors() else "scores"
    found = [
        "Judged by held-out interactions of the same users: past choices, among items they could see. How people would "
        "answer other lists is not measured.",
        f"A user without held-out interactions is in no accuracy figure; new users and new items have no {has}.",
    ]
    if config.split.method == "paper":
        found.append("The paper's split has no validation part: what was tuned on the test part looks too good.")
    if has == "scores":
        found.append("An item without a score is in no list of that user: the scores bound what can be shown.")
    if config.split.method == SET_ASIDE:
        found.append("The labels were set aside from interactions that the model knew: its accuracy looks too good.")
    if config.split.method in ("random", "paper"):
        found.append("Interactions were divided at random, not by time: a model may have seen what came later.")
    if run.categories().items_without:
        found.append("Items without categories count as covering nothing, whatever they are.")
    if config.diversify is not None:
        found += _limits_of_change(run, config)
    return "\n".join(f"- {sentence}" for sentence in found)


def _limits_of_change(run: Run, config: RunConfig) -> list[str]:
    if config.diversify is not None and config.diversify.within is not None:
        return ["The certificate holds for users like those it was measured on, and for these metrics only."]
    changed = run.load_result().vectors
    if changed is not None and changed.settings["reward_on"] == "test":
        return ["The search was rewarded on the test part: its accuracy there is too good."]
    return []


def _licences(data: DataConfig) -> str:
    named = NAMED.get(data.source.partition(":")[0])
    terms = "your own files, under your own terms" if named is None else named.licence
    return f"- data: {terms}\n- vectors and lists: made from these data; their terms may reach them\n- recprism: MIT"


def _name(source: str) -> str:
    return source if source.partition(":")[0] in NAMED else Path(source).name


def _title(source: str) -> str:
    named = NAMED.get(source.partition(":")[0])
    return _name(source) if named is None else f"{source} ({named.title})"


def _when(run: Run) -> str:
    """Return the day of the last event, so that the card does not depend on when it is written."""
    events = run.events(without=STEPS)
    return f", as of {datetime.fromtimestamp(events[-1]['time'], UTC):%Y-%m-%d}" if events else ""


def _table(facts: Mapping[str, Any]) -> str:
    return _rows(("what", "value"), ((name, value) for name, value in facts.items() if value is not None))


def _rows(header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: Any) -> str:
    """Return one line that cannot end its cell or become markup."""
    text = " ".join((f"{value:.6g}" if isinstance(value, float) else str(value)).split())
    for mark in ("\\", "|", "<", "[", "`", "*"):
        text = text.replace(mark, f"\\{mark}")
    return text
