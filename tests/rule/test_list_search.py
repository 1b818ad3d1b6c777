"""Lists of the search against brute force, against the metrics of their goals, and against greedy re-rankers."""

from __future__ import annotations

from itertools import combinations, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.rivals import MMR, MSD, XQuAD
from recprism.rule import Features, ListSearch, Reranker
from recprism.rule._batched import _Block, _membership, covers, search_batched
from recprism.rule.kernels.optimal import optimal
from recprism.rule.kernels.prices import TIE
from recprism.rule.kernels.worth import SHOWN
from recprism.rule.list_search import STAGES, most_relevant, search, terms_of
from recprism.rule.pool import Pool

BY_RELEVANCE = ("alpha_ndcg_relevant", "err_ia")
IN_ORDER = ("alpha_ndcg", *BY_RELEVANCE)
BY_SET = ("subtopic_coverage", "ilad_subtopics", "ilad")
TRADE_OFFS = (0.05, 0.2, 0.5, 0.8, 1.0)


def accuracy(world: Any, picks: Any) -> Any:
    """Return discounted relevance divided by that of items of relevance 1, (n_users,); for worlds without padding."""
    discount = 1 / np.log2(np.arange(2, picks.shape[1] + 2))
    ranks = (world.candidates[:, None, :] == picks[:, :, None]).argmax(2)
    return (np.take_along_axis(world.relevance, ranks, 1) * discount).sum(1) / discount.sum()


def by_scores(world: Any, picks: Any, goal: str) -> Any:
    """Return relevance-aware alpha-nDCG or ERR-IA with scaled scores as relevance, (n_users,), category by category."""
    member, k = world.categories > 0, picks.shape[1]
    ranks = (world.candidates[:, None, :] == picks[:, :, None]).argmax(2)
    relevance = np.take_along_axis(world.relevance, ranks, 1)
    discount = 1 / np.arange(1, k + 1) if goal == "err_ia" else 1 / np.log2(np.arange(2, k + 2))
    own = member[picks] * relevance[:, :, None]
    left = np.cumprod(np.concatenate([np.ones_like(own[:, :1]), 1 - own[:, :-1] / 2], 1), 1)
    total = (own * left * discount[:, None]).sum((1, 2))
    if goal == "err_ia":
        return total / (member.any(0).sum() * (0.5 ** np.arange(k) * discount).sum())
    times, ideal = np.zeros(member.shape[1]), 0.0
    catalogue = set(range(len(member)))
    for place in range(k):
        best = max(sorted(catalogue), key=lambda item: (0.5**times)[member[item]].sum())
        ideal += (0.5**times)[member[best]].sum() * discount[place]
        times += member[best]
        catalogue.remove(best)
    return total / ideal


def objective(world: Any, picks: Any, goal: str, trade_off: float) -> Any:
    """Return (1 - t) * accuracy + t * metric, (n_users,), by ``evaluate``; the mean for "catalogue_coverage"."""
    context = Context(vectors=world.vectors, categories=world.categories)
    if goal in BY_RELEVANCE:
        return (1 - trade_off) * accuracy(world, picks) + trade_off * by_scores(world, picks, goal)
    found = evaluate(picks, context, [f"{goal}@{picks.shape[1]}"], bootstrap=0)
    diversity = found.scores[0].mean if goal == "catalogue_coverage" else found.values[found.scores[0].name]
    return (1 - trade_off) * accuracy(world, picks) + trade_off * np.asarray(diversity)


def lists(goal: str, trade_off: float, world: Any, k: int) -> Any:
    return ListSearch(trade_off=trade_off, goals={goal: 1.0})(
        world.candidates, world.scores, k, features=world.features
    )


def best_by_force(world: Any, goal: str, trade_off: float, k: int) -> Any:
    """Return the largest objective of all subsets (in the order of rank) or of all orders, (n_users,)."""
    n = world.candidates.shape[1]
    ways = np.array(list(permutations(range(n), k) if goal in IN_ORDER else combinations(range(n), k)))
    best = np.full(len(world.candidates), -np.inf)
    for user in range(len(best)):
        alone = type(world)(
            np.repeat(world.candidates[user : user + 1], len(ways), 0),
            np.repeat(world.scores[user : user + 1], len(ways), 0),
            *(world.vectors, world.categories, None, None),
        )
        best[user] = objective(alone, world.candidates[user][ways], goal, trade_off).max()
    return best


@pytest.mark.parametrize("goal", [*BY_SET, *IN_ORDER])
def test_the_search_finds_the_optimum_nearly_always(make_world: Any, goal: str) -> None:
    k, n = (3, 7) if goal in IN_ORDER else (4, 11)
    gaps = []
    for seed in range(6):
        world = make_world(seed, n_users=10, n_candidates=n, n_items=24)
        for trade_off in TRADE_OFFS:
            found = objective(world, lists(goal, trade_off, world, k), goal, trade_off)
            start = objective(world, world.candidates[:, :k], goal, trade_off)
            assert (found >= start - 1e-6).all(), "never worse than where it starts"
            gaps.append(best_by_force(world, goal, trade_off, k) - found)
    gap = np.concatenate(gaps)
    assert gap.min() > -1e-6, "brute force cannot be beaten"
    assert (gap < 1e-6).mean() >= FOUND[goal]
    assert gap.mean() < 0.001


# Of 300 searches each; vectors in all directions are the hardest.
FOUND = {"subtopic_coverage": 0.99, "ilad_subtopics": 0.99, "ilad": 0.94, **dict.fromkeys(IN_ORDER, 0.99)}


@pytest.mark.parametrize("goal", ["subtopic_coverage", *IN_ORDER, "ilad_subtopics", "ilad"])
@pytest.mark.parametrize("trade_off", [0.2, 0.6])
def test_no_single_exchange_improves_the_metrics_own_objective(make_world: Any, goal: str, trade_off: float) -> None:
    """The kernels' objective is that of ``evaluate``: a local optimum of one is a local optimum of the other."""
    world, k = make_world(31, n_users=6), 5
    picks = lists(goal, trade_off, world, k)
    found = objective(world, picks, goal, trade_off)
    for candidate in range(world.candidates.shape[1]):
        for place in range(k):
            changed = picks.copy()
            new = world.candidates[:, candidate]
            changed[:, place] = np.where((picks == new[:, None]).any(1), picks[:, place], new)
            if goal not in IN_ORDER:  # lists of other goals are in the order of rank
                ranks = (world.candidates[:, None, :] == changed[:, :, None]).argmax(2)
                changed = np.take_along_axis(world.candidates, np.sort(ranks, 1), 1)
            assert (objective(world, changed, goal, trade_off) <= found + 1e-6).all()


def filled(world: Any, picks: Any) -> Any:
    """Return how far the lists fill each user's own categories, (n_users,); each further item adds less."""
    weights = world.user_categories / world.user_categories.sum(1, keepdims=True)
    times = (world.categories[picks] > 0).sum(1)
    return (weights * np.log1p(times)).sum(1) / np.log1p(picks.shape[1])


@pytest.mark.parametrize(
    "goal",
    ["subtopic_coverage", "ilad", *(pytest.param(goal, marks=pytest.mark.slow) for goal in ("alpha_ndcg", "err_ia"))],
)
def test_history_weight_is_part_of_accuracy(make_world: Any, goal: str) -> None:
    """Compared with brute force, the search nearly always finds the best list, history_weight included."""
    k, trade_off, history_weight, gaps = 3, 0.3, 0.8, []
    for seed in range(6):
        world = make_world(seed, n_users=10, n_candidates=7, n_items=24)
        picks = ListSearch(trade_off=trade_off, goals={goal: 1.0}, history_weight=history_weight)(
            world.candidates, world.scores, k, features=world.features
        )
        found = objective(world, picks, goal, trade_off) + (1 - trade_off) * history_weight * filled(world, picks)
        ways = np.array(list(permutations(range(7), k) if goal in IN_ORDER else combinations(range(7), k)))
        best = np.full(len(found), -np.inf)
        for way in ways:
            others = world.candidates[:, way]
            total = objective(world, others, goal, trade_off) + (1 - trade_off) * history_weight * filled(world, others)
            best = np.maximum(best, total)
        gaps.append(best - found)
    gap = np.concatenate(gaps)
    assert gap.min() > -1e-6
    assert (gap < 1e-6).mean() >= 0.95


def test_history_weight_needs_user_categories(make_world: Any) -> None:
    world = make_world(1)
    with pytest.raises(InputError, match="user_categories"):
        ListSearch(history_weight=0.5)(
            world.candidates, world.scores, 3, features=Features(categories=world.categories)
        )
    with pytest.raises(InputError, match="history_weight"):
        ListSearch(history_weight=-1.0)


def test_several_goals_add_up(make_world: Any) -> None:
    world, k, goals = make_world(32, n_users=20), 5, {"subtopic_coverage": 0.7, "ilad": 0.3}
    picks = ListSearch(trade_off=0.5, goals=goals)(world.candidates, world.scores, k, features=world.features)

    def total(chosen: Any) -> Any:
        return sum(w * objective(world, chosen, name, 0.5) for name, w in goals.items())

    for other in (*(lists(name, 0.5, world, k) for name in goals), world.candidates[:, :k]):
        assert (total(picks) >= total(other) - 1e-6).mean() >= 0.95
        assert total(picks).mean() >= total(other).mean()


@pytest.fixture(scope="module")
def little_movies(small: Any) -> Any:
    """ml-latest-small with 100 candidates of a factor model for each user."""
    split = small.split()
    seen = np.zeros((split.n_users, split.n_items))
    seen[split.train.row_of_entry, split.train.indices] = 1
    users = np.linalg.eigh(seen @ seen.T)[1][:, -20:]  # left singular vectors
    vectors = seen.T @ users
    scores = np.where(seen > 0, -np.inf, users @ vectors.T)
    candidates = np.argsort(-scores, 1, kind="stable")[:, :100]
    scores = np.take_along_axis(scores, candidates, 1)
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    features = Features(vectors=vectors, categories=small.categories)
    return SimpleNamespace(
        candidates=candidates,
        scores=scores,
        relevance=(scores - low) / (high - low),
        vectors=vectors,
        categories=small.categories,
        features=features,
    )


@pytest.mark.parametrize(
    ("goal", "rival"),
    [
        ("subtopic_coverage", XQuAD(intents="uniform", sort_back=True)),
        ("ilad", MMR(sort_back=True)),
        ("ilad", MSD(sort_back=True)),
        ("ilad_subtopics", MMR(similarity="categories", sort_back=True)),
        ("ilad_subtopics", MSD(similarity="categories", sort_back=True)),
        ("alpha_ndcg", XQuAD(intents="uniform")),
    ],
    ids=str,
)
def test_greedy_re_rankers_never_do_better(little_movies: Any, goal: str, rival: Reranker) -> None:
    """At no pair of trade-offs is a rival better on average, and it is better for few users."""
    world, k = little_movies, 10
    theirs = [
        type(rival)(**{**vars(rival), "trade_off": t})(world.candidates, world.scores, k, features=world.features)
        for t in (0.05, 0.3, 0.6, 0.95)
    ]
    for trade_off in (0.05, 0.3, 0.6, 0.95):
        ours = objective(world, lists(goal, trade_off, world, k), goal, trade_off)
        for picks in theirs:
            others = objective(world, picks, goal, trade_off)
            assert ours.mean() >= others.mean() - 1e-9
            assert (others > ours + 1e-6).mean() <= 0.02


@pytest.mark.parametrize("trade_off", TRADE_OFFS)
def test_catalogue_coverage_never_lowers_the_objective(make_world: Any, trade_off: float) -> None:
    """The objective over all users is never below that of the most relevant lists."""
    for seed in range(10):
        world, k = make_world(seed, n_users=12, n_candidates=30, n_items=60), 4
        found = objective(
            world, lists("catalogue_coverage", trade_off, world, k), "catalogue_coverage", trade_off
        ).mean()
        start = objective(world, world.candidates[:, :k], "catalogue_coverage", trade_off).mean()
        assert found >= start - 1e-9
    assert trade_off < 0.5 or found > start + 0.05, "and where coverage counts, it is found"


@pytest.mark.parametrize("other", [{}, {"subtopic_coverage": 0.3}, {"ilad_subtopics": 0.5}], ids=str)
def test_users_who_are_left_out_of_a_stage_would_keep_their_lists(make_world: Any, other: dict[str, float]) -> None:
    """The same lists as those of all stages with all users, bit for bit."""
    moved = 0
    for seed in range(5):
        world, k = make_world(seed, n_users=60, n_candidates=20, n_items=50), 4
        pool = Pool.of(world.candidates, world.scores, world.features.device, 50)
        for trade_off in (0.01, 0.1, 0.5):
            method = ListSearch(trade_off=trade_off, goals={"catalogue_coverage": 1.0, **other}, history_weight=0.2)
            terms, wanted = terms_of(method, pool, k, world.features), most_relevant(pool, k)
            shown = np.bincount(pool.items[:, :k].ravel(), minlength=pool.n_items)
            arrays = [it.numpy() for it in (pool.items, pool.relevance, pool.lengths, wanted)]
            for stage in range(1, STAGES + 1):
                prices = terms.prices.copy()
                prices[SHOWN] *= stage / STAGES
                optimal(0, pool.n_users, *arrays, *terms.arrays(shown, prices), TIE)
            assert torch.equal(search(pool, k, terms), wanted)
            moved += int((wanted != most_relevant(pool, k)).any(1).sum())
    assert moved > 100


@pytest.mark.parametrize("goal", ["subtopic_coverage", "ilad_subtopics", "catalogue_coverage"])
def test_a_goal_of_very_large_weight_gets_as_far_as_one_of_large_weight(make_world: Any, goal: str) -> None:
    """Rounding errors grow with the weight, and bounds of the search must not exclude what helps."""
    for seed in range(5):
        world, k = make_world(seed, n_users=12, n_candidates=30, n_items=60), 4
        found = []
        for weight in (1e4, 1e9):
            picks = ListSearch(trade_off=0.5, goals={goal: weight})(
                world.candidates, world.scores, k, features=world.features
            )
            found.append(objective(world, picks, goal, 1.0).mean())
        assert found[1] >= found[0] - 1e-9


def test_the_user_who_loses_least_shows_a_new_item() -> None:
    """Item 2 costs the first user much relevance and the second nearly none."""
    candidates, scores = [[0, 1, 2], [0, 1, 2]], [[1.0, 0.99, 0.0], [1.0, 0.5, 0.49]]
    picks = ListSearch(trade_off=0.6, goals={"catalogue_coverage": 1.0})(
        candidates, scores, 2, features=Features(shown=[0, 0, 0])
    )
    assert picks.tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize("goal", ["subtopic_coverage", "alpha_ndcg", "ilad", "catalogue_coverage"])
def test_any_number_of_threads_gives_the_same_bits(make_world: Any, goal: str) -> None:
    world, before = make_world(33, n_users=400, n_candidates=30), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(lists(goal, 0.5, world, 8))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(("trade_off", "history_weight"), [(0.05, 0.0), (0.3, 0.0), (1.0, 0.0), (0.2, 0.5)])
def test_the_search_for_many_lists_at_once_finds_the_lists_of_the_compiled_one(
    trade_off: float, history_weight: float
) -> None:
    generator = np.random.default_rng(0)
    n_users, n_items, k = 200, 500, 8
    items = np.argsort(generator.random((n_users, n_items)), 1)[:, :50]
    scores = -np.sort(-generator.standard_normal((n_users, 50)), 1)
    items[:20, 9:], scores[:20, 9:] = -1, -np.inf
    items[20:40, 5:], scores[20:40, 5:] = -1, -np.inf
    features = Features(
        categories=(generator.random((n_items, 12)) < 0.15).astype(float),
        user_categories=generator.random((n_users, 12)),
    )
    rule = ListSearch(trade_off=trade_off, goals={"subtopic_coverage": 1.0}, history_weight=history_weight)
    pool = Pool.of(items, scores, torch.device("cpu"), n_items)
    terms = terms_of(rule, pool, k, features)
    assert covers(terms)
    found, wanted = search_batched(pool, k, terms), search(pool, k, terms)
    assert torch.equal(found, wanted)
    assert (wanted != most_relevant(pool, k)).any()


@pytest.mark.parametrize("digits", [1, 0])
def test_the_search_for_many_lists_at_once_does_as_well_where_scores_tie(digits: int) -> None:
    generator = np.random.default_rng(0)
    items = np.argsort(generator.random((300, 500)), 1)[:, :50]
    scores = -np.sort(-generator.standard_normal((300, 50)).round(digits), 1)
    features = Features(categories=(generator.random((500, 6)) < 0.15).astype(float))
    pool = Pool.of(items, scores, torch.device("cpu"), 500)
    terms = terms_of(ListSearch(trade_off=0.3, goals={"subtopic_coverage": 1.0}), pool, 8, features)
    found, wanted = search_batched(pool, 8, terms), search(pool, 8, terms)
    assert (found == wanted).all(1).double().mean() >= 0.99
    block = _Block.of(pool, torch.arange(300), 8, terms, _membership(terms, pool))
    ours, theirs = (block._worth(lists, torch.arange(300)) for lists in (found, wanted))
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


def test_the_search_for_many_lists_at_once_leaves_other_goals_to_the_compiled_one() -> None:
    pool = Pool.of(np.arange(6)[None], -np.arange(6.0)[None], torch.device("cpu"), 6)
    features = Features(vectors=np.eye(6), categories=np.eye(6))
    for goal in ("ilad", "alpha_ndcg", "catalogue_coverage"):
        assert not covers(terms_of(ListSearch(goals={goal: 1.0}), pool, 3, features))
