"""On which axes do factors get names, and do players on them move the same factors whatever the seed of the training?

    python benchmarks/axes.py --data-root DIR [--seeds 4] [--json]

ML-1M, BPRMF with its defaults, one 8:1:1 split, several seeds of the training. On each recommender's raw axes and on
on the canonical axes: the share of factors with a reliable name (categories, popularity, year; on held-out items),
and how far the seeds agree on CMB-Shared. "by number" compares axis 0 with axis 0. The training starts from singular
vectors of the interactions, so its raw axes are half canonical already; "turned" are the raw axes after a random
rotation for each seed, which no list notices: what arbitrary axes give. Players on a strong axis move more, so axes in
the order of their strength agree for that reason alone: "beyond strength" compares what is left of Shared after a curve
through the axes' strengths (dividing by the users' spread would turn the order round instead). "matched" pairs
the axes of two seeds by the correlation of their items first, which can be done for any axes, and says how alike the
pairs are. About ten minutes on two idle cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

from harness import Claim, parser, report
from recprism.cmb import CMB
from recprism.cmb.factors._ranking import rank_agreement, shared
from recprism.cmb.factors.axes import canonical
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.naming import Labels, Name, name_coordinates
from recprism.data import Dataset, Split, load_dataset
from recprism.models import BPRMF, Factors
from score_directions import directions

METHODS = ("raw", "turned", "svd")
N_DIRECTIONS = 10
FIGURES = (
    "named",
    "agreement by number",
    "agreement beyond strength",
    "agreement matched",
    "likeness of matched axes",
)


def on_axes(factors: Factors, method: str) -> tuple[Factors, dict[str, Any]]:
    if method == "raw":
        return factors, {}
    if method == "turned":
        return turned_at_random(factors), {}
    axes = canonical(factors)
    return axes.factors, {"tied axes": sum(map(len, axes.ties))}


def turned_at_random(factors: Factors) -> Factors:
    """The same scores on other axes; another rotation for each seed of the training."""
    generator = np.random.default_rng(int(factors.settings["seed"]))
    rotation = np.linalg.qr(generator.standard_normal((factors.dim, factors.dim)))[0].astype(np.float32)
    return factors.with_vectors(user=factors.user @ rotation, item=factors.item @ rotation)


def one_seed(factors: Factors, method: str, data: Dataset, split: Split, labels: Labels) -> dict[str, Any]:
    """What players move on these axes, and which of the axes have a name."""
    turned, about = on_axes(factors, method)
    model = CMB(diversity="subtopic_coverage").fit(turned, split, data.categories)
    change = Change.of(turned, model.delta_)
    assert change.item is not None
    judge = Evaluator.on(split, "validation", turned, data.categories, ["subtopic_coverage@10", "ndcg@10"])
    before, after = judge.means(turned), judge.means(model.factors_)
    factors_named = name_coordinates(turned.item, labels)
    found = name_coordinates(directions(change, N_DIRECTIONS)[1], labels)
    return {
        "items": turned.item,
        "shared": shared(change.item),
        "strength": np.linalg.norm(turned.user, axis=0) * np.linalg.norm(turned.item, axis=0),
        "names": [name.words() for name in factors_named],
        "named": share_reliable(factors_named),
        "named directions": share_reliable(found),
        "directions": [name.words() for name in found],
        "gain": {metric: round(100 * (after[metric] / before[metric] - 1), 2) for metric in before},
        **about,
    }


def share_reliable(names: Sequence[Name]) -> float:
    return float(np.mean([name.reliable for name in names]))


def beyond_strength(sizes: NDArray[Any], strengths: NDArray[Any]) -> NDArray[Any]:
    """(d,) how much more an axis was moved than is usual for its strength: residuals of a parabola in logarithms."""
    moved, strength = np.log(np.maximum(sizes, 1e-12)), np.log(np.maximum(strengths, 1e-12))
    residual: NDArray[Any] = moved - np.polyval(np.polyfit(strength, moved, 2), strength)
    return residual


def matched(one: dict[str, Any], two: dict[str, Any]) -> tuple[float, float]:
    """Rank correlation of Shared when axes are paired by their items, and the mean correlation of the pairs."""
    n = one["items"].shape[1]
    alike = np.abs(np.corrcoef(one["items"].T, two["items"].T)[:n, n:])
    rows, columns = linear_sum_assignment(-alike)
    return float(spearmanr(one["shared"][rows], two["shared"][columns])[0]), float(alike[rows, columns].mean())


def summary(method: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    by_number = rank_agreement([run["shared"] for run in runs])
    beyond = rank_agreement([beyond_strength(run["shared"], run["strength"]) for run in runs])
    pairs = [matched(one, two) for one, two in combinations(runs, 2)]
    kept = ("named", "names", "named directions", "directions", "gain", "tied axes")
    return {
        "axes": method,
        "named": float(np.mean([run["named"] for run in runs])),
        "named directions": float(np.mean([run["named directions"] for run in runs])),
        "agreement by number": round(by_number.mean, 3),
        "interval": [round(by_number.low, 3), round(by_number.high, 3)],
        "agreement beyond strength": round(beyond.mean, 3),
        "interval beyond strength": [round(beyond.low, 3), round(beyond.high, 3)],
        "agreement matched": float(np.mean([pair[0] for pair in pairs])),
        "likeness of matched axes": float(np.mean([pair[1] for pair in pairs])),
        "seeds": [{name: run[name] for name in kept if name in run} for run in runs],
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--seeds", type=int, default=4)
    words = options.parse_args()
    data = load_dataset("ml-1m", preset="paper", data_root=words.data_root)
    split = data.split(seed=0)
    year = data.attributes["year"].to_numpy().astype(float)
    labels = Labels.of(data.categories, popularity=split.train.col_counts, year=year)
    trained = [BPRMF().fit(split, seed=seed) for seed in range(words.seeds)]
    rows = [
        summary(method, [one_seed(factors, method, data, split, labels) for factors in trained]) for method in METHODS
    ]
    claims = [Claim(f"{row['axes']}: {what}", row[what], None) for row in rows for what in FIGURES]
    best = max(rows[2:], key=lambda row: row["named"] + row["agreement beyond strength"])
    claims.append(Claim("best axes (share named + agreement beyond strength)", best["axes"], None))
    report(claims, as_json=words.json, details=rows)


if __name__ == "__main__":
    main()
