"""Write docs/paper.md and its charts from recorded reproductions.

recprism reproduce --runs 5 --json > docs/paper/ml-1m.json
recprism reproduce --dataset ml-latest-small --json > docs/paper/ml-latest-small.json
python benchmarks/policies.py --json > docs/paper/policies.json
python benchmarks/paper_rerankers.py --json > docs/paper/rerankers.json
python tools/paper_docs.py

With folders of rows it first writes docs/paper/checks.json: the rows of all seeds, those of seed 0 from another
machine, and those made there from the first machine's base models.

python tools/paper_docs.py runs/reproduce/ml-1m OTHER/seed-0 SAME
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from charts import Line, line_chart
from numpy.typing import NDArray
from scipy import stats

from recprism.cmb.tables import SINGLE_OBJECTIVES, TABLES, Row, rows_of

DOCS = Path(__file__).parents[1] / "docs"
METRICS = ("recall", "ndcg", "alpha_ndcg", "subtopic_coverage", "catalogue_coverage", "ilad")
TITLES = {
    "recall": "Recall",
    "ndcg": "NDCG",
    "alpha_ndcg": "α-nDCG",
    "subtopic_coverage": "SC",
    "catalogue_coverage": "PC",
    "ilad": "ILAD",
}
EXCLUDED = ("MMR", "DPP", "CMB-Gradient-ILAD")
"""Rows that are far from the paper's in most columns. Distances are shown with and without them."""

FIGURE = re.compile(r"<!-- (ours|paper)(, range)? \| (\w+) \| ([^|]+) \| (\w+) -->")
"""A figure in a sentence of text.md: whose, the table, the method (a pattern), the metric; at K = 10."""

Cell = dict[str, Any]


def main() -> None:
    if sys.argv[1:]:
        checked = json.dumps(_checks(*map(Path, sys.argv[1:])), indent=1, ensure_ascii=False)
        (DOCS / "paper" / "checks.json").write_text(checked + "\n", encoding="utf-8")
    (DOCS / "paper.md").write_text(page(), encoding="utf-8")
    cells = _recorded("ml-1m")["rows"]
    _sweep_chart(cells, "sweep_n_arms", "number of arms n_A (not to scale)", "n_A = ")
    _sweep_chart(cells, "sweep_A", "threshold of the arms A", "A = ")
    _sweep_chart(cells, "sweep_lambda2", "weight of accuracy λ2", "lambda2 = ")


def page() -> str:
    """Return docs/paper.md: text.md with its tables and figures, which are computed from the recorded reproductions."""
    recorded, checks = _recorded("ml-1m"), _recorded("checks")
    cells = recorded["rows"]
    text = (DOCS / "paper" / "text.md").read_text(encoding="utf-8")
    parts = {
        "base": _base_table(cells),
        **{
            name: _change_table(cells, name, 10) for name in ("tradeoff_bprmf", "tradeoff_lightgcn", "single_objective")
        },
        "against_random": _against_random_table(recorded["against_random"], checks["single_objective"]),
        "permuted": _permuted_table(checks["permuted"]),
        "machines": _machine_table(checks["machines"]),
        "sweep_A": _change_table(cells, "sweep_A", 10, controls=False),
        "sweep_n_arms": _change_table(cells, "sweep_n_arms", 10, controls=False),
        "sweep_lambda2": _change_table(cells, "sweep_lambda2", 10, controls=False),
        "policies": _policy_table(),
        "rerankers": _reranker_table(),
        "small": _small_table(),
        "distance": _distance(cells),
        "not_out": _not_out_table(cells),
        **_counts(cells, checks["permuted"]),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return FIGURE.sub(lambda found: _figure(cells, *found.groups()), text)


def _recorded(name: str) -> dict[str, list[Cell]]:
    recorded: dict[str, list[Cell]] = json.loads((DOCS / "paper" / f"{name}.json").read_text(encoding="utf-8"))
    return recorded


def _base_table(cells: list[Cell]) -> str:
    lines = ["| model, K | " + " | ".join(TITLES[m] for m in METRICS) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for model in ("BPRMF", "LightGCN"):
        for k in (10, 20):
            found = [_find(cells, f"tradeoff_{model.lower()}", model, metric, k) for metric in METRICS]
            shown = [f"{c['ours']:.4f} / {c['paper']:.4f} ({100 * (c['ours'] / c['paper'] - 1):+.1f} %)" for c in found]
            lines.append(f"| {model} @{k} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _change_table(cells: list[Cell], table: str, k: int, *, controls: bool = True) -> str:
    """Percent change against the base row: ours with its deviation where there is one, then the paper's."""
    methods = _methods(cells, table)
    methods = [m for m in methods if controls or not m.endswith(("permuted", "noise"))]
    lines = [f"| row, K={k} | " + " | ".join(TITLES[m] for m in METRICS) + " |", "|---" * (len(METRICS) + 1) + "|"]
    for method in methods:
        found = [_find(cells, table, method, metric, k) for metric in METRICS]
        if method == found[0]["base_model"]:
            continue
        lines.append(f"| {_named(method)} | " + " | ".join(_change(c) for c in found) + " |")
    return "\n".join(lines)


def _change(cell: Cell) -> str:
    ours = f"{cell['ours_change']:+.1f}"
    return ours if cell["paper_change"] is None else f"**{ours}** / {cell['paper_change']:+.1f}"


def _named(method: str) -> str:
    return f"*{method}*" if method.endswith(("permuted", "noise")) else method


def _figure(cells: list[Cell], side: str, as_range: str | None, table: str, pattern: str, metric: str) -> str:
    """Percent changes of the rows that match, in the order of the table, or the smallest and the largest."""
    methods = [m for m in _methods(cells, table) if fnmatch(m, pattern) and not m.endswith(("permuted", "noise"))]
    changes = [_find(cells, table, method, metric, 10)[f"{side}_change"] for method in methods]
    if as_range:
        least, most = sorted((min(changes), max(changes)), key=abs)
        return f"{least:+.1f} to {most:+.1f}"
    shown = [f"{change:+.1f}" for change in changes]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _compared(cells: Iterable[Cell]) -> list[Cell]:
    """Cells with a change in the paper: without base rows, controls, tuned rows, and K = 5 (the paper has no base)."""
    return [c for c in cells if c["paper_change"] is not None and c["method"] != c["base_model"]]


def _gap(cell: Cell) -> float:
    """Our change less the paper's, in percentage points."""
    return float(cell["ours_change"] - cell["paper_change"])


def _is_near(cell: Cell) -> bool:
    """Whether the paper's value is within two standard deviations of our seeds."""
    return bool(abs(cell["ours"] - cell["paper"]) <= 2 * cell["ours_std"])


def _does_not_come_out(cells: list[Cell], cell: Cell) -> bool:
    """Whether our change misses the paper's by more than half of it and by two deviations of our seeds."""
    base = _find(cells, cell["table"], cell["base_model"], cell["metric"], cell["k"])
    gap = abs(_gap(cell))
    return bool(gap > abs(cell["paper_change"]) / 2 and gap > 2 * 100 * cell["ours_std"] / base["ours"])


def _not_out_table(cells: list[Cell]) -> str:
    """The columns of each row that do not come out, at K = 10."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in _compared(cells):
        if cell["k"] == 10 and _does_not_come_out(cells, cell):
            row = (cell["method"], cell["base_model"])
            found.setdefault(row, []).append(f"{TITLES[cell['metric']]} {_change(cell)}")
    lines = ["| row | base model | columns, K=10 |", "|---|---|---|"]
    return "\n".join(lines + [f"| {method} | {model} | {', '.join(them)} |" for (method, model), them in found.items()])


def _counts(cells: list[Cell], permuted: list[Cell]) -> dict[str, str]:
    """The counts that sentences of text.md name."""
    compared = _compared(cells)
    losses = [
        c
        for c in compared
        if c["method"] not in EXCLUDED and c["base_model"] == "BPRMF" and c["metric"] in ("recall", "ndcg")
    ]
    counts = {
        "compared": len(compared),
        "near": sum(map(_is_near, compared)),
        "not_out_cells": sum(_does_not_come_out(cells, c) for c in compared),
        "losses": len(losses),
        "smaller_losses": sum(c["ours_change"] > c["paper_change"] for c in losses),
        "intervals": sum(row["differences"] for row in permuted),
        "intervals_without_zero": sum(len(row["interval_without_zero"]) for row in permuted),
    }
    ratio = np.median([c["ours_change"] / c["paper_change"] for c in losses])
    return {**{name: str(count) for name, count in counts.items()}, "ratio_of_losses": f"{ratio:.2f}"}


def _distance(cells: list[Cell]) -> str:
    """How far our changes are from the paper's, in percentage points, with and without the excluded rows."""
    compared = _compared(cells)
    columns = ("table", "figures", "near", "median distance", "largest", "largest without excluded rows")
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    near = Counter(c["table"] for c in compared if _is_near(c))
    for table in TABLES:
        rows = [c for c in compared if c["table"] == table]
        median = np.median([abs(_gap(c)) for c in rows])
        kept = _largest(c for c in rows if c["method"] not in EXCLUDED)
        shown = (len(rows), near[table], f"{median:.1f}", _largest(rows), kept)
        lines.append(f"| {table} | " + " | ".join(map(str, shown)) + " |")
    return "\n".join(lines)


def _largest(rows: Iterable[Cell]) -> str:
    cell = max(rows, key=lambda c: abs(_gap(c)))
    return f"{abs(_gap(cell)):.1f} ({cell['method']}, {TITLES[cell['metric']]}@{cell['k']})"


def _against_random_table(rows: list[Cell], permuted: list[Cell]) -> str:
    """Single objectives, random arms and the permutation on the metric optimised, in percent of the base row."""
    columns = ("row", "on", "learned", "random arms", "difference", "from its permutation")
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    controls = {(it["method"], it["metric"], it["k"]): it for it in permuted}
    for row in rows:
        control = controls[row["method"], row["metric"], row["k"]]
        shown = (f"{row['learned']:+.1f}", f"{row['random']:+.1f}", _with_interval(row), _with_interval(control))
        lines.append(
            f"| {row['method']} | {TITLES.get(row['metric'], 'Gini')}@{row['k']} | " + " | ".join(shown) + " |"
        )
    return "\n".join(lines)


def _with_interval(row: Cell) -> str:
    return f"{row['difference']:+.1f} ({row['low']:+.1f} .. {row['high']:+.1f})"


def _permuted_table(rows: list[Cell]) -> str:
    lines = ["| table | differences | interval without 0 | largest, either way |", "|---|---|---|---|"]
    lines += [
        f"| {r['table']} | {r['differences']} | {len(r['interval_without_zero'])} | {r['largest']:.1f} |" for r in rows
    ]
    return "\n".join(lines)


def _machine_table(rows: list[Cell]) -> str:
    columns = ("compared", "figures", "median distance, %", "95 of 100 below", "largest", "same perturbation")
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        digits = 1 if row["median"] > 0.05 else 4
        shown = " | ".join(f"{row[name]:.{digits}f}" for name in ("median", "p95", "largest"))
        same = f"{row['same_perturbation']} of {row['perturbations']}"
        lines.append(f"| {row['compared']} | {row['figures']:,} | {shown} | {same} |")
    return "\n".join(lines)


def _policy_table() -> str:
    recorded = json.loads((DOCS / "paper" / "policies.json").read_text(encoding="utf-8"))["details"]
    columns = ("SC@10", "the same, permuted", "Recall@10", "ψ at the start", "half way", "at the end", "seeds")
    lines = ["| objective | policy | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for row in recorded:
        psi = " | ".join(f"{value:.4f}" for value in row["psi"])
        change = (
            f"{row['subtopic_coverage']:+.1f} ± {row['sc_std']:.1f} | {row['sc_permuted']:+.1f} | {row['recall']:+.1f}"
        )
        lines.append(f"| {row['objective']} | {row['policy']} | {change} | {psi} | {row['seeds']} |")
    return "\n".join(lines)


def _reranker_table() -> str:
    recorded = json.loads((DOCS / "paper" / "rerankers.json").read_text(encoding="utf-8"))
    header, *rows = recorded["details"]["table"]
    lines = [[TITLES.get(name, name) for name in header], ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _small_table() -> str:
    cells = _recorded("ml-latest-small")["rows"]
    return _change_table(cells, "tradeoff_bprmf", 10) + "\n\n" + _change_table(cells, "single_objective", 10)


def _sweep_chart(cells: list[Cell], table: str, axis: str, lead: str) -> None:
    methods = [m for m in _methods(cells, table) if lead in m and not m.endswith(("permuted", "noise"))]
    ticks = [m.partition(lead)[2].partition(",")[0] for m in methods]
    lines = []
    for metric in ("ilad", "ndcg"):
        for side, dash in (("ours", False), ("paper", True)):
            values = [_find(cells, table, method, metric, 10)[f"{side}_change"] for method in methods]
            lines.append(
                Line(f"{TITLES[metric]}@10, {'ours' if side == 'ours' else 'the paper'}", values, metric, dash)
            )
    svg = line_chart(lines, ticks, axis, "% change against the base model")
    (DOCS / "paper" / f"{table}.svg").write_text(svg, encoding="utf-8")


def _methods(cells: Iterable[Cell], table: str) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in cells if cell["table"] == table))


def _find(cells: Iterable[Cell], table: str, method: str, metric: str, k: int) -> Cell:
    wanted = (table, method, metric, k)
    return next(c for c in cells if (c["table"], c["method"], c["metric"], c["k"]) == wanted)


def _checks(rows: Path, other: Path, same: Path) -> dict[str, list[Cell]]:
    """What the means of the seeds do not show: rows against their permutations by seed, and machine by machine."""
    seeds = [_figures(rows / f"seed-{seed}") for seed in range(5)]
    tables = [_from_permuted(seeds, table) for table in ("tradeoff_bprmf", "tradeoff_lightgcn")]
    single = _from_permuted(seeds, "single_objective")
    own = [it for it in single if it["metric"] in (SINGLE_OBJECTIVES.get(it["method"]), "gini")]
    return {
        "permuted": [
            {
                "table": table[0]["table"],
                "differences": len(table),
                "interval_without_zero": [it for it in table if it["low"] * it["high"] > 0],
                "largest": max(abs(it["difference"]) for it in table),
            }
            for table in tables
        ],
        "single_objective": own,
        "machines": [
            _distances("seed 0 on two cores, and on the GPU", [(_figures(other), seeds[0])]),
            _distances("seeds 1 to 4, and seed 0, on the GPU", [(seed, seeds[0]) for seed in seeds[1:]]),
            _distances("some rows of seed 0 on two cores from the GPU's base models", [(_figures(same), seeds[0])]),
        ],
    }


def _figures(folder: Path) -> dict[str, dict[str, Any]]:
    """slug -> what ``recprism reproduce`` wrote, for the rows that are there."""
    paths = [folder / f"{row.slug}.json" for table in TABLES for row in rows_of(table)]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()}


def _from_permuted(seeds: list[dict[str, Any]], table: str) -> list[Cell]:
    """Each CMB row less its permutation, in percent of the base row of the same seed."""
    base, *rows = rows_of(table)

    def by_seed(row: Row, method: str, name: str) -> NDArray[np.float64]:
        return np.array([seed[row.slug][method]["metrics"][name] for seed in seeds])

    made = []
    for row in rows:
        for name in seeds[0][row.slug][row.method]["metrics"] if row.kind == "cmb" else ():
            learned, permuted = by_seed(row, row.method, name), by_seed(row, f"{row.method}, permuted", name)
            gaps = 100 * (learned - permuted) / by_seed(base, base.method, name)
            half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
            metric, _, k = name.partition("@")
            about = {"table": table, "method": row.method, "metric": metric, "k": int(k)}
            mean = float(gaps.mean())
            made.append({**about, "difference": mean, "low": float(mean - half), "high": float(mean + half)})
    return made


def _distances(compared: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Cell:
    """Distances of single figures in percent, and how many perturbations agree to the bit."""
    methods = [
        (made, theirs[slug][method]) for ours, theirs in pairs for slug in ours for method, made in ours[slug].items()
    ]
    gaps = [
        abs(100 * (value / their["metrics"][name] - 1))
        for our, their in methods
        for name, value in our["metrics"].items()
    ]
    agree = [our["delta_sha"] == their["delta_sha"] for our, their in methods if our["delta_sha"]]
    shown = {"median": float(np.median(gaps)), "p95": float(np.percentile(gaps, 95)), "largest": max(gaps)}
    counts = {"figures": len(gaps), "perturbations": len(agree), "same_perturbation": sum(agree)}
    return {"compared": compared, **counts, **shown}


if __name__ == "__main__":
    main()
