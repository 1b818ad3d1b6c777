"""Write docs/frontier.md, its charts, and docs/front.json from a recorded contest.

python benchmarks/compare.py --record docs/frontier/contest.json
python benchmarks/compare.py --data-root DIR --checks > docs/frontier/checks.json
python tools/frontier_docs.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from charts import Whisker, forest_chart

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {
    "subtopic_coverage@10": "SC",
    "alpha_ndcg_relevant@10": "α-nDCG",
    "ilad_subtopics@10": "ILAD",
    "shown_often@10": "shown 5 times",
    "gini@10": "Gini",
}
FRONT_WORLD, FRONT_GOAL = "ml-1m-ease-user-temporal", "subtopic_coverage@10"
FRONT = {
    "ours": "ours, the rule",
    "greedy": "greedy, same objective",
    "mmr": "MMR",
    "dpp": "DPP",
    "xquad_uniform": "coverage (xQuAD)",
    "calibrated": "calibrated",
}
Cell = dict[str, Any]
Estimate = dict[str, float]


def main() -> None:
    recorded = contest()
    (DOCS / "frontier.md").write_text(page(recorded), encoding="utf-8")
    for world in recorded["worlds"]:
        (DOCS / "frontier" / f"{world['world']}.svg").write_text(forest(world["cells"]), encoding="utf-8")
    (DOCS / "front.json").write_text(json.dumps(front_points(recorded), indent=1), encoding="utf-8")


def contest() -> dict[str, Any]:
    """Return the recorded contest."""
    return read("contest")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "frontier" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def page(recorded: dict[str, Any]) -> str:
    """Return docs/frontier.md: text.md with its tables."""
    text = (DOCS / "frontier" / "text.md").read_text(encoding="utf-8")
    worlds, checks = recorded["worlds"], read("checks")
    parts = {
        "pooled": pooled(recorded["pooled"]),
        "relevance": relevance(worlds),
        "worlds": "\n\n".join(world_section(it) for it in worlds),
        "choices": choices(worlds[0]["choices"]),
        "all": "\n\n".join(everybody(it) for it in worlds),
        "ceilings": ceilings(checks["ceilings"]),
        "certificates": certificates(checks["certificates"]),
        "took": took(worlds),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def pooled(means: list[dict[str, Any]]) -> str:
    """Ours minus greedy and minus the best other rival, as means over worlds."""
    rows = []
    for goal, title in TITLES.items():
        for against, words in (("greedy", "greedy"), ("best", "best other rival")):
            own = sorted((it for it in means if it["goal"] == goal and it["against"] == against), key=level_of)
            rows.append((title, words, *(shown(it["lead"]) for it in own)))
    return table(("goal", "ours minus", "at a loss of 1 %", "2 %", "5 %"), rows)


def level_of(row: dict[str, Any]) -> float:
    return float(row["level"])


def relevance(worlds: list[dict[str, Any]]) -> str:
    """How much of the gain comes from the relevance, and how much from the price."""
    columns = ("world", "goal", "loss", "scores alone, with prices", "with history, with prices", "history, no price")
    rows = []
    for world in worlds:
        for cell in world["cells"]:
            if cell["goal"] in ("shown_often@10", "gini@10"):
                continue
            free = cell["at_price_0"]
            words = f"{points(free['gain'])} (NDCG {points(-free['loss'])})"
            own = (shown(cell["scores_alone"]["gain"]), shown(cell["ours"]["gain"]), words)
            rows.append((world["world"], TITLES[cell["goal"]], percent(cell["level"]), *own))
    return table(columns, rows)


def world_section(world: dict[str, Any]) -> str:
    """The chart of a world, and its cells."""
    rows = [
        (
            percent(cell["level"]),
            TITLES[cell["goal"]],
            f"**{shown(cell['ours']['gain'])}**",
            shown(cell["rivals"][0]["lead"]),
            cell["outcome_greedy"],
            f"{cell['best_name']} {shown(cell['best'])}",
            cell["outcome"],
        )
        for cell in world["cells"]
    ]
    columns = ("loss", "goal", "ours", "minus greedy", "", "minus the best other rival", "")
    name, seeds = world["world"], world["cells"][0]["seeds"]
    chart = f"![Ours minus greedy, and ours minus the best other rival, with 95 % intervals](frontier/{name}.svg)"
    return f"### {name}\n\n{chart}\n\n*{name}, seeds: {seeds}.*\n\n{table(columns, rows)}"


def choices(sizes: dict[str, int]) -> str:
    """How many choices of settings each method has."""
    rows = [
        (", ".join(name for name, own in sizes.items() if own == size), str(size))
        for size in sorted(set(sizes.values()), reverse=True)
    ]
    return table(("methods", "choices of settings"), rows)


def everybody(world: dict[str, Any]) -> str:
    """Gains of all methods of a world."""
    parts = []
    for goal, title in TITLES.items():
        cells = sorted((it for it in world["cells"] if it["goal"] == goal), key=level_of)
        rows = [("**ours**", *(shown(cell["ours"]["gain"]) for cell in cells))]
        for place, rival in enumerate(cells[0]["rivals"]):
            name = rival["method"].partition(":")[0]
            rows.append((name, *(shown(cell["rivals"][place]["gain"]) for cell in cells)))
        for other in cells[0]["others"]:
            own = f"{points(other['gain'])} at a loss of {100 * other['loss']:.1f} %"
            rows.append((other["method"], own, "", ""))
        parts.append(table((title, "at a loss of 1 %", "2 %", "5 %"), rows))
    return "\n\n".join([f"### All methods: {world['world']}", *parts])


def ceilings(rows: list[dict[str, Any]]) -> str:
    columns = (
        "world",
        "goal",
        "trade-off",
        "users",
        "solved by the relaxation",
        "our share of the best value",
        "best lists found",
        "gap left open",
    )
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        relaxed = f"{row['whole']:.1%}" if row["goal"].startswith("subtopic") else f"{row['whole']:.0%} in time"
        known = row["share_of_best"] is not None
        figures = [f"{row[name]:.3%}" if known else "-" for name in ("share_of_best", "optimal_lists", "gap_left")]
        words = (row["world"], TITLES[row["goal"]], f"{row['trade_off']:g}", str(row["users"]), relaxed, *figures)
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def certificates(rows: list[dict[str, Any]]) -> str:
    """How often certificates were earned on validation, and how often the test lost more than the budget."""
    columns = ("budget", "asked", "certified", "mean loss on validation", "mean loss on the test", "above the budget")
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for budget in sorted({row["budget"] for row in rows}):
        asked = [row for row in rows if row["budget"] == budget]
        earned = [row for row in asked if row["trade_off"] is not None]
        means = [f"{100 * sum(row[it] for row in earned) / max(len(earned), 1):.2f} %" for it in ("loss", "test_loss")]
        above = sum(row["test_loss"] > budget for row in earned)
        words = (f"{100 * budget:g} %", str(len(asked)), str(len(earned)), *means, str(above))
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def took(worlds: list[dict[str, Any]]) -> str:
    rows = [(it["world"], it["machine"], f"{it['seconds'] / 60:.0f}") for it in worlds]
    return table(("world", "machine", "minutes"), rows)


def forest(cells: list[Cell]) -> str:
    """The chart of a world: two whiskers per cell; goals of one list and of all lists have a panel each."""
    rows: dict[bool, list[Whisker]] = {}
    for cell in cells:
        name = f"{TITLES[cell['goal']]}, {percent(cell['level'])}"
        panel = rows.setdefault(cell["goal"] == "shown_often@10", [])
        for label, it in (("minus greedy", cell["rivals"][0]["lead"]), ("minus the best other rival", cell["best"])):
            panel.append(Whisker(name, label, *(100 * it[end] for end in ("value", "low", "high"))))
    return forest_chart(list(rows.values()), "ours minus the other, in percent of the base value")


def front_points(recorded: dict[str, Any]) -> dict[str, Any]:
    """The README's chart: the gain of every method at equal losses on the test, in percent."""
    world = next(it for it in recorded["worlds"] if it["world"] == FRONT_WORLD)
    paths: dict[str, list[tuple[float, float]]] = {title: [(0.0, 0.0)] for title in FRONT.values()}
    for cell in sorted((it for it in world["cells"] if it["goal"] == FRONT_GOAL), key=level_of):
        entries = {it["method"].partition(":")[0]: it for it in (cell["ours"], *cell["rivals"])}
        for name, title in FRONT.items():
            paths[title].append((-100 * cell["level"], 100 * entries[name]["gain"]["value"]))
    return {"world": FRONT_WORLD, "change_in_percent": paths}


def shown(it: Estimate) -> str:
    """A share in percent, with its interval."""
    return f"{points(it['value'])} [{points(it['low'])}, {points(it['high'])}]"


def points(value: float) -> str:
    return f"{100 * value:+.1f}"


def percent(level: float) -> str:
    return f"{100 * level:g} %"


if __name__ == "__main__":
    main()
