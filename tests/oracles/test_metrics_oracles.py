"""Metrics against other people's implementations (ranx, ndeval, SciPy), and against plain loops where there is none."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.stats import entropy

from recprism.data.incidence import Incidence
from recprism.metrics import Context, Evaluation, Metric, evaluate, parse
from recprism.metrics import lists as lists_module
from recprism.metrics.cpu import COMPILED
from recprism.metrics.kernels import PLAIN

DEPTH = 20
SHAPES = [  # users, items, subtopics, subtopics per item at most
    (40, 60, 6, 3),
    (30, 300, 18, 3),
    (50, 25, 3, 2),
    (20, 150, 30, 5),
    (60, 40, 12, 1),
]


@dataclass(frozen=True)
class Case:
    """A random world; ``lists`` holds plain Python lists without padding."""

    items: NDArray[np.int64]
    lists: list[list[int]]
    relevant: list[set[int]]
    subtopics: list[set[int]]
    weights: NDArray[np.float64]
    vectors: NDArray[np.float64]
    train: Incidence
    context: Context


def make_case(seed: int, n_users: int, n_items: int, n_subtopics: int, per_item: int) -> Case:
    generator = np.random.default_rng(seed)
    items = np.stack([generator.permutation(n_items)[:DEPTH] for _ in range(n_users)])
    for user in generator.choice(n_users, n_users // 4, replace=False):
        items[user, generator.integers(1, DEPTH) :] = -1
    held_out = generator.random((n_users, n_items)) < generator.uniform(0.02, 0.3, (n_users, 1))
    held_out[:3] = False
    held_out[4] = True  # more held out than the list has places
    member = np.zeros((n_items, n_subtopics), bool)
    for item in range(n_items):
        member[item, generator.choice(n_subtopics, generator.integers(0, per_item + 1), replace=False)] = True
    member[generator.permutation(n_items)[:n_subtopics], np.arange(n_subtopics)] = True  # every subtopic exists
    weights = member * generator.uniform(0.2, 3.0, member.shape)
    weights = weights.astype(np.float32).astype(np.float64)  # contexts keep weights as float32
    vectors = generator.standard_normal((n_items, 7))
    train = Incidence.coerce((generator.random((n_users, n_items)) < 0.15 * generator.random(n_items)) & ~held_out)
    return Case(
        items,
        [[int(item) for item in row if item >= 0] for row in items],
        [set(np.flatnonzero(row).tolist()) for row in held_out],
        [set(np.flatnonzero(row).tolist()) for row in member],
        weights,
        vectors,
        train,
        Context(relevant=held_out, train=train, subtopics=weights, vectors=vectors, attributes=weights),
    )


CASES = [make_case(seed, *shape) for seed, shape in enumerate(SHAPES)]


@pytest.fixture(params=range(len(CASES)), ids=lambda number: "x".join(map(str, SHAPES[number])))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


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
    for number, case in enumerate(CASES):
        judged = [user for user, relevant in enumerate(case.relevant) if relevant]
        question[str(number)] = {
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


@pytest.mark.parametrize("number", range(len(CASES)))
def test_accuracy_agrees_with_ranx(number: int, ranx_answers: dict[str, dict[str, list[float]]]) -> None:
    case = CASES[number]
    result = values(case, *RANX_NAMES)
    judged = np.array([bool(relevant) for relevant in case.relevant])
    for name in RANX_NAMES:
        assert_per_user(result.values[name][judged], ranx_answers[str(number)][name])
        assert np.isnan(result.values[name][~judged]).all()


# ndeval through ir-measures: alpha-nDCG with the ideal of the whole catalogue, subtopic recall


def ndeval(measures: list[Any], subtopics: list[set[int]], lists: list[list[int]]) -> Iterator[tuple[int, str, float]]:
    """Every item with a subtopic is judged. Of equal gains ndeval takes the highest name: items are named backwards."""
    import ir_measures

    def name(item: int) -> str:
        return f"{len(subtopics) - item:06}"

    users = range(len(lists))
    judgements = [
        ir_measures.Qrel(str(user), name(item), 1, str(subtopic))
        for user in users
        for item, own in enumerate(subtopics)
        for subtopic in own
    ]
    run = [
        ir_measures.ScoredDoc(str(user), name(item), float(-place))
        for user in users
        for place, item in enumerate(lists[user])
    ]
    for answer in ir_measures.iter_calc(measures, judgements, run):
        yield int(answer.query_id), str(answer.measure), answer.value


# Powers of these are exact: elsewhere ndeval's rounding, not its rule, decides between equal gains.
@pytest.mark.parametrize("alpha", [0.5, 0.25, 0.75])
def test_alpha_ndcg_and_coverage_agree_with_ndeval(case: Case, alpha: float) -> None:
    from ir_measures import StRecall, alpha_nDCG

    metric = parse("alpha_ndcg")[0].variant("alpha_ndcg_here", {"alpha": alpha})
    cuts = (5, 10, 20)
    result = values(case, *((metric, k) for k in cuts), *(f"sc@{k}" for k in cuts))
    names = {str(alpha_nDCG(alpha=alpha) @ k): f"alpha_ndcg_here@{k}" for k in cuts}
    measures = [alpha_nDCG(alpha=alpha) @ k for k in cuts]
    if alpha == 0.5:  # asked together with another alpha, ir-measures gives zeros
        names |= {str(StRecall @ k): f"sc@{k}" for k in cuts}
        measures += [StRecall @ k for k in cuts]
    answers = list(ndeval(measures, case.subtopics, case.lists))
    assert len(answers) == len(case.lists) * len(measures)
    for user, measure, expected in answers:
        assert result.values[names[measure]][user] == pytest.approx(expected, abs=1e-6), (user, measure)


def test_gated_alpha_ndcg_agrees_with_ndeval_on_the_gated_subtopics(case: Case) -> None:
    from ir_measures import alpha_nDCG

    own = own_subtopics(case)
    result = values(case, "alpha_ndcg_gated@10")
    for user, gate in enumerate(own):
        found = result.values["alpha_ndcg_gated@10"][user]
        gated = [subtopics & gate for subtopics in case.subtopics]
        if not gate:
            assert math.isnan(found)
        elif any(gated):
            [(_, _, expected)] = ndeval([alpha_nDCG @ 10], gated, [case.lists[user]])
            assert found == pytest.approx(expected, abs=1e-6)


def own_subtopics(case: Case) -> list[set[int]]:
    """Subtopics among all the user's interactions, training and held out."""
    interactions = [set(case.train.row(user).tolist()) | relevant for user, relevant in enumerate(case.relevant)]
    return [set().union(*(case.subtopics[item] for item in items)) for items in interactions]


# SciPy: distances and entropies


@pytest.mark.parametrize("k", [2, 10, 20])
@pytest.mark.parametrize("space", ["", "_subtopics", "_attributes"])
def test_distances_agree_with_scipy(case: Case, space: str, k: int) -> None:
    result = values(case, f"ilad{space}@{k}", f"mild{space}@{k}")
    vectors = case.weights if space else case.vectors
    for user, items in enumerate(case.lists):
        rows = vectors[items[:k]]
        with np.errstate(invalid="ignore"):
            distances = np.nan_to_num(pdist(rows, "cosine")) if len(rows) > 1 else np.zeros(1)  # no direction: 0
        assert result.values[f"ilad{space}@{k}"][user] == pytest.approx(distances.mean(), abs=2e-6)
        assert result.values[f"mild{space}@{k}"][user] == pytest.approx(distances.min(), abs=2e-6)


@pytest.mark.parametrize("k", [1, 10, 20])
def test_entropies_agree_with_scipy(case: Case, k: int) -> None:
    result = values(case, f"subtopic_entropy@{k}", f"exposure_entropy@{k}")
    shares = item_shares(case)
    n_items, n_subtopics = shares.shape
    expected = [
        entropy(shares[items[:k]].sum(0)) / math.log(n_subtopics) if shares[items[:k]].any() else 0.0
        for items in case.lists
    ]
    assert_per_user(result.values[f"subtopic_entropy@{k}"], expected)
    assert result[f"exposure_entropy@{k}"].mean == pytest.approx(entropy(exposure(case, k)) / math.log(n_items))


def item_shares(case: Case) -> NDArray[np.float64]:
    sums = case.weights.sum(1, keepdims=True)
    return np.divide(case.weights, sums, out=np.zeros_like(case.weights), where=sums > 0)


def exposure(case: Case, k: int) -> NDArray[np.int64]:
    return np.bincount([item for items in case.lists for item in items[:k]], minlength=len(case.subtopics))


# Plain loops


@pytest.mark.parametrize("k", [1, 10, 20])
def test_shared_coverage_agrees_with_a_plain_loop(case: Case, k: int) -> None:
    shares = item_shares(case)
    expected = [np.minimum(1, shares[items[:k]].sum(0)).sum() / shares.shape[1] for items in case.lists]
    assert_per_user(values(case, f"sc_shared@{k}").values[f"sc_shared@{k}"], expected)


@pytest.mark.parametrize("k", [1, 10, 20])
def test_catalogue_metrics_agree_with_plain_loops(case: Case, k: int) -> None:
    result = values(case, f"pc@{k}", f"gini@{k}", f"personalisation@{k}")
    shown = exposure(case, k)
    assert result[f"pc@{k}"].mean == len({item for items in case.lists for item in items[:k]}) / len(shown)
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
        for subtopic in gains_of(item):
            seen[subtopic] = seen.get(subtopic, 0) + 1
    return total


def naive_greedy_order(items: list[int], gains_of: Callable[[int], set[int]], alpha: float) -> list[int]:
    left, order, seen = list(items), [], dict[int, int]()
    while left:
        gains = [sum((1 - alpha) ** seen.get(s, 0) for s in gains_of(item)) for item in left]
        chosen = left.pop(next(i for i, gain in enumerate(gains) if gain >= max(gains) - 1e-12))
        order.append(chosen)
        for subtopic in gains_of(chosen):
            seen[subtopic] = seen.get(subtopic, 0) + 1
    return order


@pytest.mark.parametrize("alpha", [0.5, 0.3])
@pytest.mark.parametrize("k", [5, 10, 20])
def test_list_ideal_agrees_with_a_plain_loop(case: Case, k: int, alpha: float) -> None:
    metric = parse("alpha_ndcg_list")[0].variant("here", {"alpha": alpha})
    subtopics_of = case.subtopics.__getitem__
    expected = []
    for items in case.lists:
        best = naive_alpha_dcg(naive_greedy_order(items[:k], subtopics_of, alpha), subtopics_of, k, alpha)
        expected.append(naive_alpha_dcg(items, subtopics_of, k, alpha) / best if best else 0.0)
    assert_per_user(values(case, (metric, k)).values[f"here@{k}"], expected)


@pytest.mark.parametrize("k", [5, 10, 20])
def test_paper_variants_agree_with_plain_loops(case: Case, k: int) -> None:
    """The ideal re-orders the top 20 whatever the cut; only the user's own subtopics count, in both DCGs."""
    result = values(case, f"alpha_ndcg_paper@{k}", f"ilad_paper@{k}")
    expected_alpha, expected_ilad = [], []
    for items, own in zip(case.lists, own_subtopics(case), strict=True):

        def gated(item: int, own: set[int] = own) -> set[int]:
            return case.subtopics[item] & own

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
