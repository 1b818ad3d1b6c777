"""How much of the lists of several methods a choice model explains, and how long it takes.

    python benchmarks/choice_model.py RUN [RUN ...] [--draws 199] [--json]

Each RUN is a trained run. All methods choose 10 of 200 candidates on its validation part. "Explained" is the share of
the bits that scores alone leave open, on users that the model was not fitted on. "Shuffled" is the same with categories
shuffled among items of one popularity decile, and among all items: mean of the draws, and p. "No history" leaves the
users' histories out. Seconds are processor seconds of all threads together.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.budget import Problem
from recprism.explain import fit_choice_model
from recprism.rivals import DPP, MMR, Calibrated, XQuAD
from recprism.rule import ListSearch, Reranker
from recprism.runs import Run

K, DEPTH = 10, 200
METHODS: dict[str, Reranker | None] = {
    "optimal for SC, 0.1": ListSearch(trade_off=0.1),
    "optimal for SC, 0.2": ListSearch(trade_off=0.2),
    "optimal for SC and history, 0.1": ListSearch(trade_off=0.1, history_weight=0.2),
    "optimal for ILAD on categories, 0.2": ListSearch(trade_off=0.2, goals={"ilad_subtopics": 1.0}),
    "MMR on categories": MMR(trade_off=0.3, similarity="categories"),
    "DPP on categories": DPP(trade_off=0.3, similarity="categories"),
    "xQuAD": XQuAD(trade_off=0.3),
    "calibrated": Calibrated(trade_off=0.3),
    "MMR on vectors": MMR(trade_off=0.3),
    "DPP on vectors": DPP(trade_off=0.3),
    "random": None,
}
BARS = {
    "optimal for SC, 0.1": (0.95, "higher"),
    "optimal for SC, 0.2": (0.95, "higher"),
    "MMR on vectors": (0.15, "lower"),
    "DPP on vectors": (0.15, "lower"),
    "random": (0.05, "lower"),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="trained runs with categories")
    options.add_argument("--draws", type=int, default=199, help="draws of each shuffle (199)")
    chosen = options.parse_args()
    claims, details = [], {}
    for path in chosen.runs:
        rows = measured(Run.open(path).problem("validation"), chosen.draws)
        claims += [Claim(f"{path.name}: explained, {name}", rows[name]["explained"], *BARS[name]) for name in BARS]
        gain = rows["calibrated"]["explained"] - rows["calibrated"]["no_history"]
        claims.append(Claim(f"{path.name}: explained more with history, calibrated", gain, 0.2, "higher"))
        claims.append(Claim(f"{path.name}: processor seconds, most", max(it["seconds"] for it in rows.values()), None))
        details[path.name] = rows
        if not chosen.json:
            print_table(path.name, rows)
    report(claims, as_json=chosen.json, details=details)


def measured(problem: Problem, draws: int) -> dict[str, dict[str, Any]]:
    """Method -> its figures."""
    items, scores = (array[:, :DEPTH] for array in problem.candidates)
    about = {"popularity": problem.split.train.col_counts}
    history = problem.features.intents(len(items)).numpy()
    inputs = (items, scores, items[:, :K])
    found = {}
    for name, method in METHODS.items():
        lists = random_lists(items) if method is None else method(items, scores, K, features=problem.features)
        start, cpu = time.perf_counter(), time.process_time()
        model = fit_choice_model(*inputs, lists, problem.categories, history=history, draws=draws, **about)
        seconds = {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - start}
        without = fit_choice_model(*inputs, lists, problem.categories, draws=0, **about)
        found[name] = {**model.to_dict(), "no_history": without.explained, **seconds}
    return found


def random_lists(items: np.ndarray) -> np.ndarray:
    """Random candidates from the best 100."""
    generator = np.random.default_rng(0)
    return generator.permuted(items[:, :100], axis=1)[:, :K]


def print_table(name: str, rows: dict[str, dict[str, Any]]) -> None:
    print(f"{name}\n")
    print(
        "| lists of | explained | interval | right item | no history | shuffled in deciles | among all | places | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for method, it in rows.items():
        low, high = it["interval"]
        null = [
            f"{100 * it[f'explained_shuffled_{kind}']:.1f} (p {it['shuffled'][kind]['p_value']:.3f})"
            if kind in it["shuffled"]
            else ""
            for kind in ("within", "all")
        ]
        figures = [f"{100 * it['explained']:.1f}", f"{100 * low:.1f} to {100 * high:.1f}"]
        figures += [f"{100 * it['right_item']:.1f}", f"{100 * it['no_history']:.1f}", *null, str(it["slots"])]
        print(f"| {method} | {' | '.join(figures)} | {it['seconds']:.1f} |")
    print()


if __name__ == "__main__":
    main()
