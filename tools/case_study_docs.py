"""Write docs/case_study.md and its heat map from what benchmarks/case_study.py recorded.

python tools/case_study_docs.py
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from statistics import mean
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {"subtopic_coverage": "SC", "alpha_ndcg": "α-nDCG", "catalogue_coverage": "PC", "ilad": "ILAD"}
ACCURACY = {"recall": "Recall", "ndcg": "NDCG"}
CELL_WIDTH, CELL_HEIGHT, LEFT, TOP = 34, 18, 220, 84
RAISED, LOWERED = "#15803d", "#c2410c"


def main() -> None:
    folder = DOCS / "case_study"
    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    text = (folder / "text.md").read_text(encoding="utf-8")
    parts = {
        "extraction": "\n\n".join(_extraction(found[name]) for name in ("extraction", "phones") if name in found),
        "categories": _categories(found["categories"]),
        "models": _models(found["models"]),
        "objectives": _objectives(found["objectives"]),
        "verdicts": _verdicts(found["objectives"]),
        **_paper_parts(found["paper"]),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    (DOCS / "case_study.md").write_text(text, encoding="utf-8")
    (folder / "heat.svg").write_text(_heat(found["heat"]), encoding="utf-8")
    (folder / "heat_phones.svg").write_text(_heat(found["paper"]["heat"]), encoding="utf-8")


def _extraction(found: dict[str, Any]) -> str:
    lead = (
        f"`{found['file']}`: {found['reviews']:,} reviews, {found['mentions']:,} mentions of 100 features, "
        f"{found['seconds']:g} seconds. The most mentioned, with the share of praise:"
    )
    top = [
        (row["feature"], f"{row['mentions']:,}", "" if row["positive"] is None else f"{row['positive']:.0%}")
        for row in found["top"]
    ]
    return f"{lead}\n\n{_table([('feature', 'mentions', 'praise'), *top])}"


def _categories(found: dict[str, Any]) -> str:
    rows = [("category", "its features")]
    rows += [(row["category"], ", ".join(row["feature"])) for row in found["clusters"]]
    return f"{_table(rows)}\n\nAn item has {found['per_item']:.1f} of them on average."


def _models(found: list[dict[str, float]]) -> str:
    names = [name for name in found[0] if not name.startswith("validation")]
    rows = [("model", *(f"split {number}" for number in range(len(found))), "mean")]
    for name in names:
        values = [split[name] for split in found]
        rows.append((name, *(f"{value:.4f}" for value in (*values, mean(values)))))
    plain, filled = (mean(split[f"validation, {name}"] for split in found) for name in ("plain", "completed"))
    return (
        f"{_table(rows)}\n\nFilling never-mentioned cells raises validation NDCG@10 from {plain:.4f} to {filled:.4f} "
        "on average. Unlike BPRMF, the feature model has columns with names."
    )


def _objectives(found: dict[str, dict[str, Any]]) -> str:
    rows = [
        (
            "objective",
            "top-5 features",
            "before",
            "learned",
            "shuffled (best)",
            "p",
            "bias part",
            "NDCG@10",
            "seeds",
            "user weights",
            "first / median",
        )
    ]
    for goal, row in found.items():
        rows.append(
            (
                TITLES[goal],
                ", ".join(entry["feature"] for entry in row["top"]),
                *_judged(row),
                ", ".join(f"{value:.2f}" for value in row["rank_correlation_over_seeds"]),
                f"{row['rank_correlation_with_user_weights']:.2f}",
                f"{row['first_over_median']:.2f}",
            )
        )
    return _table(rows)


def _verdicts(found: dict[str, dict[str, Any]]) -> str:
    """The verdict on the whole change for each objective, then the one on the ranking of features."""
    weights = [row["rank_correlation_with_user_weights"] for row in found.values()]
    first = max(row["first_over_median"] for row in found.values())
    ranking = (
        "\n\nThe change was learned; the evidence for the ranking of features is weaker. Its rank correlation with the "
        f"size of users' weights, which do not depend on the objective, is {min(weights):.2f} to {max(weights):.2f}. "
        f"The first feature moved at most {first:.2f} times as much as the median one. Read the top five as features "
        "that lists depend on in general. This page does not show that they are specific to one objective."
    )
    return _by_objective(found) + ranking


def _paper_parts(found: dict[str, Any]) -> dict[str, str]:
    """The run with the settings of the paper: its data, its top-5 table, the controls, and what they say."""
    ndcg, rows = found["ndcg"], found["objectives"]
    data = (
        f"The sample has {found['interactions']:,} ratings from 4 up, by {found['users']:,} users on {found['items']} "
        f"items; {found['test_interactions']} of them are in the test part. NDCG@10 of the raw features is "
        f"{ndcg['raw features']:.4f}; that of popularity is {ndcg['popularity']:.4f}."
    )
    return {
        "paper data": data,
        "paper top": _paper_top(rows),
        "paper controls": _paper_controls(rows),
        "paper verdict": _paper_verdict(found["rank_correlation"], rows),
    }


def _judged(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of an objective against its controls."""
    return (
        f"{row['before']:.4f}",
        f"**{row['after']:.4f}**",
        f"{row['shuffled_within_items']:.4f} ({row['shuffled_best']:.4f})",
        f"{row['p']:.3f}",
        f"{row['bias_part']:.4f}",
        f"{row['ndcg_before']:.4f} → {row['ndcg_after']:.4f}",
    )


def _named(row: dict[str, Any]) -> str:
    return f"{TITLES[row['goal']]}-{ACCURACY[row['accuracy']]}"


def _paper_top(rows: list[dict[str, Any]]) -> str:
    table = [("objective", "the paper", "here, seed 0", "in common, each seed")]
    for row in rows:
        paper = [entry["feature"] for entry in row["paper"]]
        common = ", ".join(str(len(set(paper) & set(top))) for top in row["top_of_seeds"])
        table.append((_named(row), ", ".join(paper), ", ".join(row["top_of_seeds"][0]), common if paper else ""))
    return _table(table)


def _paper_controls(rows: list[dict[str, Any]]) -> str:
    table = [
        ("objective", "before", "learned", "shuffled (best)", "p", "bias part", "NDCG@10", "seeds", "first / median")
    ]
    for row in rows:
        seeds = row["rank_correlation_over_seeds"]
        table.append(
            (
                _named(row),
                *_judged(row),
                f"{min(seeds):+.2f} to {max(seeds):+.2f}",
                f"{row['first_over_median']:.2f}",
            )
        )
    return _table(table)


def _paper_verdict(correlation: dict[str, list[float]], rows: list[dict[str, Any]]) -> str:
    """Whether the reward or the seed makes the ranking, then the verdict for each objective."""
    of_seed, of_goal = (correlation[f"same {it}"] for it in ("seed, other objective", "objective, other seed"))
    compared = [row for row in rows if row["paper"]]
    names = {entry["feature"]: entry["extracted"] for row in compared for entry in row["paper"]}
    hits, chance = [], []
    for row in compared:
        hits += [len({it["feature"] for it in row["paper"]} & set(top)) for top in row["top_of_seeds"]]
        chance.append(len(row["top"]) * sum(it["extracted"] for it in row["paper"]) / 100)
    lead = (
        "**The seed makes the ranking.** For two objectives with one seed, the rank correlation of the features is "
        f"{_mean_and_range(of_seed)}. For two seeds with the same objective it is {_mean_and_range(of_goal)}. "
        f"{sum(names.values())} of the {len(names)} features in the paper's table are among our 100. A top five here "
        f"has {mean(hits):.2f} features in common with that of the paper on average; five features drawn at random "
        f"would have {mean(chance):.2f}."
    )
    holding = sum(row["verdict"]["holds"] for row in rows)
    said = (
        "The controls of `recprism erase` judge seed 0 on a fifth of the users, after a search that did not use them. "
        "Shares are those of the search's own gain that a control reaches; a verdict needs p below 0.05 for both. It "
        f"holds for {holding} of {len(rows)} objectives."
    )
    return f"{lead}\n\n{said}\n\n{_paper_verdicts(rows)}"


def _paper_verdicts(rows: list[dict[str, Any]]) -> str:
    controls = ("shuffled within items", "plain promotion of items")
    table = [("objective", "gain", *controls)]
    for row in rows:
        figures = {it["name"]: it for it in row["verdict"]["figures"]}
        cells = [f"{figures[name]['share']:.0%}, p = {figures[name]['corrected']:.3f}" for name in controls]
        table.append((_named(row), f"{row['verdict']['gain']:+.4f}", *cells))
    return _table(table)


def _mean_and_range(values: list[float]) -> str:
    low, middle, high = values
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _by_objective(found: dict[str, dict[str, Any]]) -> str:
    return "\n".join(f"- **{TITLES[goal]}**: {_verdict(row)} {_checked(row)}" for goal, row in found.items())


def _checked(row: dict[str, Any]) -> str:
    """The verdict of `recprism erase` on held-out users."""
    lead = "The verdict of `recprism erase`, on a fifth of the users that the search did not use, is this."
    return f"{lead} *{row['verdict']['sentence']}*"


def _verdict(row: dict[str, Any]) -> str:
    gain = row["after"] - row["before"]
    if row["p"] > 0.05:
        return "the shuffled change does equally well: this perturbation explains nothing about features."
    share, bias = ((row[name] - row["before"]) / gain for name in ("shuffled_within_items", "bias_part"))
    said = f"better than the shuffled change (p = {row['p']:.3f}), which keeps {100 * share:.0f} % of the gain."
    if row["bias_part"] >= row["after"]:
        return (
            said + " But its item-bias part alone does equally well. It shows which items to lift, not which features"
            " matter."
        )
    return said + f" The item-bias part alone reaches {100 * bias:.0f} % of it."


def _heat(found: dict[str, Any]) -> str:
    largest = max(abs(value) for row in found["values"] for value in row) or 1.0
    body = []
    for column, name in enumerate(found["features"]):
        x = LEFT + (column + 0.5) * CELL_WIDTH
        body.append(f'<text x="{x}" y="{TOP - 6}" transform="rotate(-50 {x} {TOP - 6})">{escape(name)}</text>')
    for line, (item, about, values) in enumerate(
        zip(found["items"], found["spoken_of_as"], found["values"], strict=True)
    ):
        y = TOP + line * CELL_HEIGHT
        body.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(f"{item} ({about})")}</text>')
        body += [
            _cell(column, y, value, largest, f"{item}, {name}")
            for column, (name, value) in enumerate(zip(found["features"], values, strict=True))
        ]
    bottom = TOP + len(found["items"]) * CELL_HEIGHT + 22
    legend = f"green: raised, red: lowered; full colour is {largest:.3f}, in units of the largest feature"
    body.append(f'<text x="{LEFT}" y="{bottom}">{legend}</text>')
    width = LEFT + len(found["features"]) * CELL_WIDTH + 60
    style = "text{font:12px system-ui,sans-serif;fill:#444}@media(prefers-color-scheme:dark){text{fill:#ccc}}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 12}" role="img">'
    return "\n".join([f"{head}<style>{style}</style>", *body, "</svg>\n"])


def _cell(column: int, y: float, value: float, largest: float, what: str) -> str:
    colour = RAISED if value > 0 else LOWERED
    place = f'x="{LEFT + column * CELL_WIDTH}" y="{y}" width="{CELL_WIDTH - 1}" height="{CELL_HEIGHT - 1}"'
    title = f"<title>{escape(what)}: {value:+.4f}</title>"
    return f'<rect {place} fill="{colour}" fill-opacity="{abs(value) / largest:.2f}">{title}</rect>'


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


if __name__ == "__main__":
    main()
