"""Input and output of re-rankers: kinds of arrays, settings and error messages."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from recprism.data.categories import Categories
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.rivals import DPP, MMR, RERANKERS, ExposureAware, SlotFilling, XQuAD, reranker
from recprism.rule import Features, Reranker, category_probabilities

CANDIDATES = np.array([[0, 1, 2], [2, 1, -1]])
SCORES = np.array([[3.0, 2.0, 1.0], [5.0, 4.0, -np.inf]], np.float32)
VECTORS = np.eye(3)


def mmr(candidates: Any = CANDIDATES, scores: Any = SCORES, k: Any = 2, **features: Any) -> Any:
    return MMR()(candidates, scores, k, features=Features(**{"vectors": VECTORS, **features}))


class TestKindsOfArrays:
    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize("kind", [np.int32, np.uint16, np.int64])
    @pytest.mark.parametrize("score_kind", [np.float16, np.float32, np.float64, np.int64])
    def test_numpy_in_numpy_out(self, kind: Any, score_kind: Any) -> None:
        candidates = np.array([[0, 1, 2], [2, 1, 0]], kind)
        picks = mmr(candidates, np.array([[3, 2, 1], [5, 4, 1]], score_kind))
        assert isinstance(picks, np.ndarray)
        assert picks.tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize("score_kind", [torch.float32, torch.bfloat16])
    def test_torch_in_torch_out(self, score_kind: torch.dtype) -> None:
        scores = torch.from_numpy(SCORES).to(score_kind).requires_grad_()
        picks = mmr(torch.from_numpy(CANDIDATES).to(torch.int32), scores, vectors=torch.eye(3, requires_grad=True))
        assert isinstance(picks, torch.Tensor)
        assert picks.dtype == torch.int64
        assert picks.tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize("score_kind", [torch.float32, torch.bfloat16])
    def test_transposed_tensors(self, score_kind: torch.dtype) -> None:
        candidates, scores = torch.tensor(CANDIDATES.T.copy()), torch.tensor(SCORES.T.copy(), dtype=score_kind)
        assert mmr(candidates.T, scores.T).tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("implementation")
    def test_lists_of_lists(self) -> None:
        assert mmr(CANDIDATES.tolist(), SCORES.tolist(), vectors=VECTORS.tolist()).tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("implementation")
    def test_read_only_and_backward_arrays(self) -> None:
        candidates, scores = CANDIDATES.copy(), SCORES.copy()
        candidates.flags.writeable = scores.flags.writeable = False
        assert mmr(candidates, scores).tolist() == mmr(candidates[:, ::-1], scores[:, ::-1]).tolist()

    @pytest.mark.usefixtures("implementation")
    def test_the_input_does_not_change(self, make_world: Any) -> None:
        world = make_world(0)
        before = [world.candidates.copy(), world.scores.copy(), world.shown.copy()]
        shuffled = world.scores[:, ::-1].copy()
        for name in RERANKERS:
            reranker(name, sort_back=True)(world.candidates, shuffled, 5, features=world.features)
        for array, old in zip((world.candidates, shuffled[:, ::-1], world.shown), before, strict=True):
            np.testing.assert_array_equal(array, old)

    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize("name", sorted(RERANKERS))
    def test_no_users_and_no_candidates(self, name: str, make_world: Any) -> None:
        features = make_world(0, n_users=2).features
        without_places = np.empty((2, 0), np.int64), np.empty((2, 0))
        assert reranker(name)(*without_places, 3, features=features).tolist() == [[-1] * 3] * 2
        all_empty = np.full((2, 4), -1), np.full((2, 4), -np.inf)
        assert reranker(name)(*all_empty, 3, features=features).tolist() == [[-1] * 3] * 2
        empty = make_world(0, n_users=1)
        empty.user_categories = np.empty((0, 6))
        no_users = np.empty((0, 4), np.int64), np.empty((0, 4))
        assert reranker(name)(*no_users, 3, features=empty.features).shape == (0, 3)

    @pytest.mark.usefixtures("implementation")
    def test_a_score_of_minus_infinity_or_an_item_of_minus_one_is_no_candidate(self) -> None:
        assert mmr([[0, -1, 2]], [[-np.inf, 9.0, 1.0]], 3).tolist() == [[2, -1, -1]]

    @pytest.mark.usefixtures("implementation")
    def test_candidates_are_ranked_by_score_and_equal_ones_keep_their_order(self) -> None:
        picks = ExposureAware(trade_off=0)([[2, 1, 0]], [[1.0, 2.0, 1.0]], 3)
        assert picks.tolist() == [[1, 2, 0]]

    def test_metrics_accept_the_lists(self, make_world: Any) -> None:
        world = make_world(0, padded=True)
        picks = DPP()(world.candidates, world.scores, 10, features=world.features)
        assert Lists(picks, Context(n_items=40)).depth == 10

    @pytest.mark.usefixtures("implementation")
    def test_categories_of_the_data_layer(self) -> None:
        categories = Categories.from_pairs(np.array([0, 1, 2]), ["a", "a", "b"], 3)
        features = Features(
            categories=categories, user_categories=category_probabilities([[1, 0, 1], [0, 0, 1]], categories)
        )
        assert XQuAD(trade_off=0.9)(CANDIDATES, SCORES, 2, features=features).tolist() == [[0, 2], [2, 1]]


class TestErrors:
    @pytest.mark.parametrize("name", sorted(RERANKERS))
    @pytest.mark.parametrize("trade_off", [-0.1, 1.1, float("nan"), "much", None])
    def test_trade_off_is_from_0_to_1(self, name: str, trade_off: Any) -> None:
        with pytest.raises(InputError, match=r"trade_off is .+; pass a number from 0 to 1"):
            reranker(name, trade_off=trade_off)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: MMR(similarity="faces"), "similarity is 'faces'; choose one of vectors, categories"),
            (lambda: XQuAD(intents="mine"), "intents is 'mine'; choose one of user, uniform"),
            (lambda: SlotFilling(fill="hope"), "fill is 'hope'; choose one of coverage, exposure"),
            (
                lambda: SlotFilling(slots=-1),
                "slots is -1; pass a whole number of at least 0, or None to go by trade_off",
            ),
            (lambda: SlotFilling(slots=True), "slots is .+; pass a whole number"),
            (
                lambda: ExposureAware(seed=0.5),
                "seed is .+; pass a whole number from 0 to 4,294,967,295, or None for the order of the rows",
            ),
            (
                lambda: reranker("optimal", goals={"subtopic_coverage": 1, "fun": 1}),
                "no path towards 'fun'; goals are subtopic_coverage, alpha_ndcg, ",
            ),
            (lambda: reranker("optimal", goals={}), "a goal needs a metric"),
            (
                lambda: reranker("optimal", goals={"subtopic_coverage": -1}),
                "the weight of goal 'subtopic_coverage' is -1; pass a number above 0",
            ),
            (lambda: reranker("optimal", goals={"ilad": 1, "ilad_subtopics": 1}), "two ways to measure one goal"),
            (lambda: reranker("dpp", theta=1), "re-ranker 'dpp': .*unexpected keyword argument 'theta'"),
            (lambda: reranker("x quad uniform "), "unknown re-ranker 'x quad uniform '; did you mean 'xquad_uniform'"),
            (
                lambda: reranker("zzz"),
                "unknown re-ranker 'zzz'; there are calibrated, calibrated_flow, dpp",
            ),
        ],
    )
    def test_settings(self, make: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            make()

    @pytest.mark.parametrize("k", [0, -1, 1.5, "ten", None])
    def test_length_of_lists(self, k: Any) -> None:
        with pytest.raises(InputError, match=r"k is .+; pass a whole number of at least 1"):
            mmr(k=k)

    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize(
        ("candidates", "scores", "message"),
        [
            ([0, 1], [1.0, 2.0], r"candidates must have shape \(n_users, n_candidates\), got \(2,\)"),
            ([[0, 1]], [[1.0]], r"candidates have shape \(1, 2\) and scores \(1, 1\); give one score per candidate"),
            (np.array([[0.0, 1.0]]), [[2.0, 1.0]], r"candidates must hold item numbers \(integers\), got float64"),
            (torch.tensor([[True]]), [[2.0]], r"candidates must hold item numbers \(integers\), got torch.bool"),
            ([[0, 3]], [[2.0, 1.0]], "candidate 2 of user 0 is item 3; items go from 0 to 2, and -1 is an empty place"),
            ([[0], [-2]], [[2.0], [1.0]], "candidate 1 of user 1 is item -2"),
            ([[0, 1]], [[2.0, np.nan]], "candidate 2 of user 0 has score nan; scores must be numbers"),
            ([[0, 1]], [[np.inf, 1.0]], "candidate 1 of user 0 has score inf"),
            ([[0, 1], [1, 1]], [[2.0, 1.0]] * 2, "item 1 is a candidate of user 1 more than once"),
            ([[0, 1], [1]], [[2.0, 1.0]] * 2, "candidates cannot be read as an array of numbers"),
            ([["a"]], [[2.0]], "candidates cannot be read as an array of numbers"),
        ],
    )
    def test_candidates(self, candidates: Any, scores: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            mmr(candidates, scores)

    @pytest.mark.usefixtures("implementation")
    @pytest.mark.parametrize(
        ("name", "features", "message"),
        [
            ("mmr", {}, r"needed but not given: item vectors to compare: Features\(vectors="),
            ("dpp", {"categories": VECTORS}, r"Features\(vectors="),
            ("xquad_uniform", {"vectors": VECTORS}, r"what the items are about: Features\(categories="),
            ("slots_coverage", {}, r"Features\(categories="),
            ("xquad", {"categories": VECTORS}, r"what each user cares for: Features\(user_categories="),
            (
                "xquad",
                {"categories": VECTORS, "user_categories": VECTORS},
                "user_categories has 3 rows and there are candidates for 2 users; give one row per user",
            ),
        ],
    )
    def test_features_that_are_missing(self, name: str, features: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            reranker(name)(CANDIDATES, SCORES, 2, features=Features(**features))

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            ({"vectors": [1.0, 2.0]}, r"vectors must have shape \(n_items, d\), got \(2,\)"),
            ({"vectors": [[np.nan]]}, "vectors holds values that are not finite"),
            ({"vectors": np.eye(3), "shown": [0, 0]}, r"disagree on the number of items \(vectors: 3, shown: 2\)"),
            ({"shown": [-1]}, "shown holds negative values"),
            ({"user_categories": [[1.0]]}, r"Features\(categories="),
            (
                {"categories": np.eye(3), "user_categories": [[1.0, 2.0]]},
                r"user_categories must have one column per category, 3; got shape \(1, 2\)",
            ),
        ],
    )
    def test_features_that_are_wrong(self, features: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Features(**features)

    def test_interactions_and_categories_of_different_catalogues(self) -> None:
        with pytest.raises(InputError, match="the interactions have 2 items and the categories 3; index both alike"):
            category_probabilities([[1, 0]], np.eye(3))


class TestRegistry:
    def test_one_signature_for_all(self) -> None:
        names = {tuple(inspect.signature(type(reranker(name)).__call__).parameters) for name in RERANKERS}
        assert names == {("self", "candidates", "scores", "k", "features")}

    def test_case_spaces_and_hyphens_of_names_do_not_matter(self) -> None:
        assert reranker(" xQuAD-Uniform ") == XQuAD(intents="uniform")

    def test_a_new_one_is_a_class_and_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Last(Reranker):
            def choose(self, pool: Any, k: int, features: Features) -> torch.Tensor:  # noqa: ARG002
                return (pool.lengths[:, None] - 1 - torch.arange(k)).clamp(min=-1)

        monkeypatch.setitem(RERANKERS, "last", Last)
        assert reranker("last")(CANDIDATES, SCORES, 2).tolist() == [[2, 1], [1, 2]]
