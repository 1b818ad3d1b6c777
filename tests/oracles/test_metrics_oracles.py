"""Metrics against other implementations (ranx, ndeval, SciPy), and against plain loops where there is none."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from metric_cases import ALPHAS, CASES, CUTS, DEPTH, RELEVANCE_AWARE, Case, ask_ndeval, fingerprint, own_categories
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.stats import entropy

from recprism.metrics import Evaluation, Metric, evaluate
from recprism.metrics import lists as lists_module
from recprism.metrics.compiled import COMPILED
from recprism.metrics.operations import PLAIN
from recprism.metrics.registry import parse


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def case(name: str) -> Case:
    return CASES[name]


@pytest.fixture(params=[PLAIN, COMPILED], ids=["torch", "numba"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_module, "kernels_for", lambda _device: request.param)


def values(case: Case, *names: str | tuple[Metric, int]) -> Evaluation:
    return evaluate(case.items, case.context, names, bootstrap=0)


def assert_per_user(found: NDArray[np.float64], expected: list[float], tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, np.array(expected), rtol=tolerance, atol=tolerance)


# ranx: recall, ndcg, mrr, precision, hit rate

RANX_CUTS = (1, 5, 10, 20)
RANX_NAMES = [f"{name}@{k}" for name in ("recall", "ndcg", "mrr", "precision", "hit_rate") for k in RANX_CUTS]
RANX_PROGRAM = """
import json, sys
from ranx import Qrels, Run, evaluate
cases = json.load(sys.stdin)
names = cases.pop("names")
answers = {number: {name: list(map(float, found)) for name, found in
                    evaluate(Qrels(case["qrels"]), Run(case["run"]), names, return_mean=False).items()}
           for number, case in cases.items()}
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def ranx_answers() -> dict[str, dict[str, list[float]]]:
    """All cases through ranx in a process of its own, uncompiled: its compilation takes longer than all these tests."""
    question: dict[str, Any] = {"names": RANX_NAMES}
    for name, case in CASES.items():
        judged = [user for user, relevant in enumerate(case.relevant) if relevant]
        question[name] = {
            "qrels": {f"{user:04}": {str(item): 1 for item in case.relevant[user]} for user in judged},
            "run": {
                f"{user:04}": {str(item): float(DEPTH - place) for place, item in enumerate(case.lists[user])}
                for user in judged
            },
        }
    answer = subprocess.run(
        [sys.executable, "-c", RANX_PROGRAM],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    return dict(json.loads(answer.stdout))


@pytest.mark.slow
def test_accuracy_agrees_with_ranx(name: str, case: Case, ranx_answers: dict[str, dict[str, list[float]]]) -> None:
    result = values(case, *RANX_NAMES)
    judged = np.array([bool(relevant) for relevant in case.relevant])
    for metric in RANX_NAMES:
        assert_per_user(result.values[metric][judged], ranx_answers[name][metric])
        assert np.isnan(result.values[metric][~judged]).all()


# ndeval: alpha-nDCG with the ideal of the whole catalogue, subtopic recall

RECORDED = Path(__file__).parents[1] / "golden" / "ndeval" / "answers.json"


@pytest.fixture(params=["recorded", pytest.param("live", marks=pytest.mark.needs("pyndeval"))])
def ndeval(request: pytest.FixtureRequest, name: str) -> dict[str, list[float | None]]:
    """What ndeval answers: as tools/record_ndeval.py recorded it, and again where pyndeval is installed."""
    if request.param == "live":
        return ask_ndeval(CASES[name])
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["cases"][name]
    assert recorded["fingerprint"] == fingerprint(CASES[name]), "the recording is about other worlds; record again"
    return dict(recorded["answers"])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_alpha_ndcg_agrees_with_ndeval(case: Case, ndeval: dict[str, list[float | None]], alpha: float) -> None:
    metric = parse("alpha_ndcg")[0].variant("here", {"alpha": alpha})
    result = values(case, *((metric, k) for k in CUTS))
    for k in CUTS:
        np.testing.assert_allclose(result.values[f"here@{k}"], ndeval[f"alpha_ndcg {alpha}@{k}"], rtol=0, atol=1e-6)


def test_coverage_agrees_with_ndeval(case: Case, ndeval: dict[str, list[float | None]]) -> None:
    result = values(case, *(f"subtopic_coverage@{k}" for k in CUTS))
    for k in CUTS:
        np.testing.assert_allclose(
            result.values[f"subtopic_coverage@{k}"], ndeval[f"subtopic_coverage@{k}"], rtol=0, atol=1e-6
        )


def test_gated_alpha_ndcg_agrees_with_ndeval_on_the_gated_categories(
    case: Case, ndeval: dict[str, list[float | None]]
) -> None:
    found = values(case, "alpha_ndcg_gated@10").values["alpha_ndcg_gated@10"]
    for gate, ours, theirs in zip(own_categories(case), found, ndeval["alpha_ndcg_gated@10"], strict=True):
        if not gate:
            assert math.isnan(ours) and theirs is None
        else:
            assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("name_of_metric", RELEVANCE_AWARE)
def test_relevance_aware_metrics_agree_with_ndeval(
    case: Case, ndeval: dict[str, list[float | None]], name_of_metric: str
) -> None:
    result = values(case, *(f"{name_of_metric}@{k}" for k in CUTS))
    for k in CUTS:
        theirs = np.array(ndeval[f"{name_of_metric}@{k}"], float)  # None, nothing to judge, becomes NaN
        np.testing.assert_allclose(result.values[f"{name_of_metric}@{k}"], theirs, rtol=0, atol=1e-6)


# SciPy: distances and entropies


@pytest.mark.parametrize("k", [2, 10, 20])
@pytest.mark.parametrize("space", ["", "_subtopics", "_attributes"])
def test_distances_agree_with_scipy(case: Case, space: str, k: int) -> None:
    result = values(case, f"ilad{space}@{k}", f"min_ild{space}@{k}")
    vectors = case.weights if space else case.vectors
    for user, items in enumerate(case.lists):
        rows = vectors[items[:k]]
        with np.errstate(invalid="ignore"):
            distances = np.nan_to_num(pdist(rows, "cosine")) if len(rows) > 1 else np.zeros(1)  # no direction: 0
        assert result.values[f"ilad{space}@{k}"][user] == pytest.approx(distances.mean(), abs=2e-6)
        assert result.values[f"min_ild{space}@{k}"][user] == pytest.approx(distances.min(), abs=2e-6)


@pytest.mark.parametrize("k", [1, 10, 20])
def test_entropies_agree_with_scipy(case: Case, k: int) -> None:
    result = values(case, f"subtopic_entropy@{k}", f"exposure_entropy@{k}")
    shares = item_shares(case)
    n_items, n_categories = shares.shape
    expected = [
        entropy(shares[items[:k]].sum(0)) / math.log(n_categories) if shares[items[:k]].any() else 0.0
        for items in case.lists
    ]
    assert_per_user(result.values[f"subtopic_entropy@{k}"], expected)
    assert result[f"exposure_entropy@{k}"].mean == pytest.approx(entropy(exposure(case, k)) / math.log(n_items))


def item_shares(case: Case) -> NDArray[np.float64]:
    sums = case.weights.sum(1, keepdims=True)
    return np.divide(case.weights, sums, out=np.zeros_like(case.weights), where=sums > 0)


def exposure(case: Case, k: int) -> NDArray[np.int64]:
    return np.bincount([item for items in case.lists for item in items[:k]], minlength=len(case.categories))


# Plain loops


@pytest.mark.parametrize("k", [1, 10, 20])
def test_shared_coverage_agrees_with_a_plain_loop(case: Case, k: int) -> None:
    shares = item_shares(case)
    expected = [np.minimum(1, shares[items[:k]].sum(0)).sum() / shares.shape[1] for items in case.lists]
    assert_per_user(values(case, f"subtopic_coverage_shared@{k}").values[f"subtopic_coverage_shared@{k}"], expected)


@pytest.mark.parametrize("k", [1, 10, 20])
def test_catalogue_metrics_agree_with_plain_loops(case: Case, k: int) -> None:
    names = ("catalogue_coverage", "gini", "personalisation", "shown_often", "shown_2_times")
    result = values(case, *(f"{name}@{k}" for name in names))
    shown = exposure(case, k)
    assert result[f"shown_often@{k}"].mean == np.count_nonzero(np.asarray(shown) >= 5) / len(shown)
    assert result[f"shown_2_times@{k}"].mean == np.count_nonzero(np.asarray(shown) >= 2) / len(shown)
    assert result[f"catalogue_coverage@{k}"].mean == len({item for items in case.lists for item in items[:k]}) / len(
        shown
    )
    differences = sum(abs(int(a) - int(b)) for a in shown for b in shown)
    assert result[f"gini@{k}"].mean == pytest.approx(differences / (2 * len(shown) * shown.sum()))
    cut = [set(items[:k]) for items in case.lists]
    overlaps = [len(a & b) / math.sqrt(len(a) * len(b)) for a, b in combinations(cut, 2)]
    assert result[f"personalisation@{k}"].mean == pytest.approx(1 - np.mean(overlaps))


@pytest.mark.parametrize("k", [1, 10, 20])
def test_popularity_metrics_agree_with_plain_loops(case: Case, k: int) -> None:
    counts = case.train.col_counts
    head: set[int] = set()
    for item in sorted(range(len(counts)), key=lambda item: -counts[item]):
        if sum(counts[list(head)]) >= 0.8 * counts.sum():
            break
        head.add(item)
    result = values(case, f"tail_share@{k}", f"novelty@{k}")
    cut = [items[:k] for items in case.lists]
    assert_per_user(
        result.values[f"tail_share@{k}"], [float(np.mean([item not in head for item in items])) for items in cut]
    )
    surprise = -np.log2(np.maximum(counts, 1) / counts.sum())
    assert_per_user(result.values[f"novelty@{k}"], [float(surprise[items].mean()) for items in cut])


def naive_alpha_dcg(items: list[int], gains_of: Callable[[int], set[int]], k: int, alpha: float) -> float:
    seen: dict[int, int] = {}
    total = 0.0
    for place, item in enumerate(items[:k], start=1):
        total += sum((1 - alpha) ** seen.get(s, 0) for s in gains_of(item)) / math.log2(place + 1)
        for category in gains_of(item):
            seen[category] = seen.get(category, 0) + 1
    return total


def naive_greedy_order(items: list[int], gains_of: Callable[[int], set[int]], alpha: float) -> list[int]:
    left, order, seen = list(items), [], dict[int, int]()
    while left:
        gains = [sum((1 - alpha) ** seen.get(s, 0) for s in gains_of(item)) for item in left]
        chosen = left.pop(next(i for i, gain in enumerate(gains) if gain >= max(gains) - 1e-12))
        order.append(chosen)
        for category in gains_of(chosen):
            seen[category] = seen.get(category, 0) + 1
    return order


@pytest.mark.parametrize("alpha", [0.5, 0.3])
@pytest.mark.parametrize("k", [5, 10, 20])
def test_list_ideal_agrees_with_a_plain_loop(case: Case, k: int, alpha: float) -> None:
    metric = parse("alpha_ndcg_list")[0].variant("here", {"alpha": alpha})
    categories_of = case.categories.__getitem__
    expected = []
    for items in case.lists:
        best = naive_alpha_dcg(naive_greedy_order(items[:k], categories_of, alpha), categories_of, k, alpha)
        expected.append(naive_alpha_dcg(items, categories_of, k, alpha) / best if best else 0.0)
    assert_per_user(values(case, (metric, k)).values[f"here@{k}"], expected)


@pytest.mark.parametrize("k", [5, 10, 20])
def test_paper_variants_agree_with_plain_loops(case: Case, k: int) -> None:
    """The ideal re-orders the top 20 whatever the cut; only the user's own categories count, in both DCGs."""
    result = values(case, f"alpha_ndcg_paper@{k}", f"ilad_paper@{k}")
    expected_alpha, expected_ilad = [], []
    for items, own in zip(case.lists, own_categories(case), strict=True):

        def gated(item: int, own: set[int] = own) -> set[int]:
            return case.categories[item] & own

        best = naive_alpha_dcg(naive_greedy_order(items, gated, 0.5), gated, k, 0.5)
        value = naive_alpha_dcg(items, gated, k, 0.5) / best if best else 0.0
        expected_alpha.append(value if own else math.nan)
        unit = case.vectors[items[:k]] / np.linalg.norm(case.vectors[items[:k]], axis=1, keepdims=True)
        n = len(unit)
        distances = [1 - unit[i] @ unit[j] for i, j in combinations(range(n), 2)]
        expected_ilad.append(sum(distances) / (n * (n - 1)) if n > 1 else 0.0)
    assert_per_user(result.values[f"alpha_ndcg_paper@{k}"], expected_alpha)
    assert_per_user(result.values[f"ilad_paper@{k}"], expected_ilad, tolerance=2e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.3])
@pytest.mark.parametrize("k", [1, 10, 20])
def test_calibration_agrees_with_scipy(case: Case, k: int, alpha: float) -> None:
    """entropy(p, q) of SciPy is KL(p || q)."""
    metric = parse("calibration")[0].variant("here", {"alpha": alpha})
    shares, expected = item_shares(case), []
    for user, items in enumerate(case.lists):
        own, shown = shares[case.train.row(user)].sum(0), shares[items[:k]].sum(0)
        if not own.any():
            expected.append(math.nan)
            continue
        p = own / own.sum()
        q = shown / shown.sum() if shown.any() else np.zeros_like(shown)
        mixed = (1 - alpha) * q + alpha * p
        expected.append(float(sum(a * math.log(a / b) for a, b in zip(p, mixed, strict=True) if a > 0)))
        if shown.any():
            assert expected[-1] == pytest.approx(entropy(p, mixed), abs=1e-12)
    assert_per_user(values(case, (metric, k)).values[f"here@{k}"], expected)


@pytest.mark.parametrize("k", [1, 10, 20])
def test_ndcg_of_strata_agrees_with_a_plain_loop(case: Case, k: int) -> None:
    counts = case.train.col_counts.tolist()
    stratum_of, before = {}, 0
    for item in sorted(range(len(counts)), key=lambda item: -counts[item]):
        stratum_of[item] = sum(3 * before >= third * sum(counts) for third in (1, 2))
        before += counts[item]
    result = values(case, *(f"ndcg_{name}@{k}" for name in ("head", "mid", "tail")))
    for number, name in enumerate(("head", "mid", "tail")):
        expected = []
        for items, relevant in zip(case.lists, case.relevant, strict=True):
            wanted = {item for item in relevant if stratum_of[item] == number}
            dcg = sum(1 / math.log2(place + 2) for place, item in enumerate(items[:k]) if item in wanted)
            best = sum(1 / math.log2(place + 2) for place in range(min(k, len(wanted))))
            expected.append(dcg / best if wanted else math.nan)
        assert_per_user(result.values[f"ndcg_{name}@{k}"], expected)
