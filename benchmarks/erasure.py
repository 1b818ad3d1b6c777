"""Do the features a perturbation ranks first carry its gain, and is the gain about factors at all? By kind of credit.

    python benchmarks/erasure.py --data-root DIR [--case NAME ...] [--factors FILE] [--json]

ML-1M, BPRMF with its defaults, 8:1:1. Every perturbation is searched for on 80 % of the users and judged on the test
items of the other 20 %. Erasure as in the paper's Figure 3 (its set was ML-10M), with a size-matched erasure beside it,
20 draws; controls with 199 draws. About two minutes a case on two cores; ``--case`` takes the cases whose name starts
so, and ``--factors`` keeps the trained model between calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.cmb import CMB
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import run_controls
from recprism.cmb.factors.erasure import BY, WHICH, erase
from recprism.cmb.factors.evaluator import METRICS, Evaluator
from recprism.cmb.factors.held_out import divided_users, learned_promotion
from recprism.cmb.factors.nulls import null_erasures
from recprism.cmb.factors.parts import bias_and_rest
from recprism.cmb.factors.verdict import Verdict
from recprism.data import Split, load_dataset
from recprism.models import BPRMF, Factors

GOALS = ("subtopic_coverage", "alpha_ndcg", "catalogue_coverage", "ilad_subtopics")
KINDS: dict[str, dict[str, Any]] = {
    "marginal": {"preset": "default"},
    "shared": {"preset": "shared"},
    "paper, single": {"preset": "paper", "lambda1": 0.0},
    "paper, trade-off": {"preset": "paper", "accuracy": "recall"},
    # the same values, dealt to the players at random: what Figure 3 looks like where nothing is known
    "paper, trade-off, shuffled": {"preset": "paper", "accuracy": "recall", "shuffled": True},
}
CASES = {f"{kind}: {goal}": {**settings, "diversity": goal} for kind, settings in KINDS.items() for goal in GOALS}
COUNTS = (5, 10)
DRAWS = 20


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--case", nargs="*", default=[""], help="the start of the names of the cases to run")
    options.add_argument("--factors", type=Path, help="where the trained model is kept (.safetensors)")
    words = options.parse_args()
    data = load_dataset("ml-1m", preset="paper", data_root=words.data_root)
    split = data.split(seed=0)
    base = trained(split, words.factors)
    seen, judged = divided_users(split.n_users, 0.2)

    def row(name: str) -> dict[str, Any]:
        settings = dict(CASES[name])
        shuffled = settings.pop("shuffled", False)
        model = CMB.preset(settings.pop("preset"), **settings)
        objective = f"{settings['diversity']}@10"
        metrics = tuple(dict.fromkeys((objective, *METRICS)))
        judge = Evaluator.on(split, "test", base, data.categories, metrics, judged)
        model.fit(base.of_users(seen), split.of_users(seen), data.categories)
        change = Change.of(base, model.delta_)  # for all users
        if shuffled:
            change = change.replaced(
                item=np.random.default_rng(0).permuted(change.sides["item"].ravel()).reshape(-1, base.dim)
            )
        promotions = learned_promotion(base, split, data.categories, seen, objective)
        return figures(name, change, judge, objective, promotions)

    rows = [row(name) for name in CASES if name.startswith(tuple(words.case))]
    if not words.json:
        for it in rows:
            show(it)
    report([claim for it in rows for claim in claims(it)], as_json=words.json, details=rows)


def trained(split: Split, kept: Path | None) -> Factors:
    if kept is not None and kept.exists():
        return Factors.load(kept)
    factors = BPRMF().fit(split, seed=0)
    if kept is not None:
        factors.save(kept)
    return factors


def figures(
    name: str, change: Change, judge: Evaluator, objective: str, promotions: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    """Percent throughout: metrics of the base, erasure and controls of the gain."""
    erasure = erase(change, judge, objective, features=COUNTS, draws=DRAWS)
    controls = run_controls(change, judge, objective, candidates=promotions, unseen=True)
    verdict = Verdict.of(controls)
    before, after = (dict(zip(erasure.metrics, ends.tolist(), strict=True)) for ends in (erasure.base, erasure.learned))
    parts = bias_and_rest(change, judge)[objective]
    return {
        "case": name,
        "objective": objective,
        "change": {metric: percent(after[metric] / before[metric] - 1) for metric in after},
        "bias": percent(parts.bias_share),
        "rest": percent(parts.rest_share),
        "taken back": {
            f"{by}, {which}, {n}": percent(erasure.taken_back(by, which, n))
            for by in BY
            for n in COUNTS
            for which in WHICH
        },
        "nulls taken back": {
            it.name: percent(1 - (erasure.share_left(it.values[objective]) or 0.0))
            for it in null_erasures(change, judge, draws=DRAWS)
        },
        "ndcg after erasing": {
            f"{by}, {which}, {n}": percent(
                erasure.values(by, which, "ndcg@10")[:, list(erasure.features).index(n)].mean() / before["ndcg@10"] - 1
            )
            for by in BY
            for n in COUNTS
            for which in WHICH
        },
        "faithfulness": erasure.to_dict()["faithfulness"],
        "controls": {
            figure.name: {"share of gain": percent(figure.share), "p": figure.p_value} for figure in verdict.figures
        },
        "promotion": controls.to_dict()["rows"][-1],
        "holds": verdict.holds,
        "sentence": verdict.sentence(),
    }


def percent(share: float | None) -> float | None:
    return None if share is None else round(100 * float(share), 1)


def show(it: dict[str, Any]) -> None:
    print(f"## {it['case']}\nchange, %: {it['change']}; bias alone {it['bias']}, rest alone {it['rest']}")
    for by in BY:
        for n in COUNTS:
            taken = {which: it["taken back"][f"{by}, {which}, {n}"] for which in WHICH}
            ndcg = {which: it["ndcg after erasing"][f"{by}, {which}, {n}"] for which in WHICH}
            print(f"{by}, F={n}: % of the gain taken back {taken}; ndcg@10, % of base {ndcg}")
    print(f"nulls, % of the gain taken back: {it['nulls taken back']}")
    print(f"faithfulness {it['faithfulness']}\ncontrols {it['controls']}\n{it['promotion']}\n{it['sentence']}\n")


def claims(it: dict[str, Any]) -> list[Claim]:
    """The area between the curves should be above 0 in all but 2.5 % of the draws."""
    return [
        Claim(f"{it['case']}: faithfulness of {by} against {which}, low end", (area or {}).get("low"), 0.0, "higher")
        for which, areas in it["faithfulness"].items()
        for by, area in areas.items()
    ]


if __name__ == "__main__":
    main()
