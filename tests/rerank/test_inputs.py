"""What goes in and comes out: kinds of arrays, settings, and errors that speak."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.metrics import Context, Lists
from recprism.rerank import (
    DPP,
    MMR,
    RERANKERS,
    ExposureAware,
    Features,
    Reranker,
    SlotFilling,
    XQuAD,
    register,
    reranker,
    subtopic_probabilities,
)
from recprism.rerank import _choices as engine_module

CANDIDATES = np.array([[0, 1, 2], [2, 1, -1]])
SCORES = np.array([[3.0, 2.0, 1.0], [5.0, 4.0, -np.inf]], np.float32)
VECTORS = np.eye(3)


@pytest.fixture(params=["compiled", "plain"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of doing the work, one after the other."""
    if request.param == "plain":
        monkeypatch.setattr(engine_module, "_compiled", lambda: None)


def usable() -> list[str]:
    """All re-rankers, or, where the compiled code is taken away, those that can do without."""
    return [name for name in RERANKERS if engine_module._compiled() is not None or not name.startswith("optimal")]


def mmr(candidates: Any = CANDIDATES, scores: Any = SCORES, k: Any = 2, **features: Any) -> Any:
    return MMR()(candidates, scores, k, features=Features(**{"vectors": VECTORS, **features}))


class TestKindsOfArrays:
    @pytest.mark.usefixtures("engine")
    @pytest.mark.parametrize("kind", [np.int32, np.uint16, np.int64])
    @pytest.mark.parametrize("score_kind", [np.float16, np.float32, np.float64, np.int64])
    def test_numpy_in_numpy_out(self, kind: Any, score_kind: Any) -> None:
        candidates = np.array([[0, 1, 2], [2, 1, 0]], kind)
        picks = mmr(candidates, np.array([[3, 2, 1], [5, 4, 1]], score_kind))
        assert isinstance(picks, np.ndarray)
        assert picks.tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("engine")
    @pytest.mark.parametrize("score_kind", [torch.float32, torch.bfloat16])
    def test_torch_in_torch_out(self, score_kind: torch.dtype) -> None:
        scores = torch.from_numpy(SCORES).to(score_kind).requires_grad_()
        picks = mmr(torch.from_numpy(CANDIDATES).to(torch.int32), scores, vectors=torch.eye(3, requires_grad=True))
        assert isinstance(picks, torch.Tensor)
        assert picks.dtype == torch.int64
        assert picks.tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("engine")
    @pytest.mark.parametrize("score_kind", [torch.float32, torch.bfloat16])
    def test_turned_tensors(self, score_kind: torch.dtype) -> None:
        candidates, scores = torch.tensor(CANDIDATES.T.copy()), torch.tensor(SCORES.T.copy(), dtype=score_kind)
        assert mmr(candidates.T, scores.T).tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("engine")
    def test_lists_of_lists(self) -> None:
        assert mmr(CANDIDATES.tolist(), SCORES.tolist(), vectors=VECTORS.tolist()).tolist() == [[0, 1], [2, 1]]

    @pytest.mark.usefixtures("engine")
    def test_read_only_and_backward_arrays(self) -> None:
        candidates, scores = CANDIDATES.copy(), SCORES.copy()
        candidates.flags.writeable = scores.flags.writeable = False
        assert mmr(candidates, scores).tolist() == mmr(candidates[:, ::-1], scores[:, ::-1]).tolist()

    @pytest.mark.usefixtures("engine")
    def test_the_input_is_left_as_it_was(self, make_world: Any) -> None:
        world = make_world(0)
        before = [world.candidates.copy(), world.scores.copy(), world.shown.copy()]
        shuffled = world.scores[:, ::-1].copy()
        for name in usable():
            reranker(name, sort_back=True)(world.candidates, shuffled, 5, features=world.features)
        for array, old in zip((world.candidates, shuffled[:, ::-1], world.shown), before, strict=True):
            np.testing.assert_array_equal(array, old)

    @pytest.mark.usefixtures("engine")
    @pytest.mark.parametrize("name", sorted(RERANKERS))
    def test_no_users_and_no_candidates(self, name: str, make_world: Any) -> None:
        if name not in usable():
            return  # TestErrors has what happens then
        features = make_world(0, n_users=2).features
        without_places = np.empty((2, 0), np.int64), np.empty((2, 0))
        assert reranker(name)(*without_places, 3, features=features).tolist() == [[-1] * 3] * 2
        all_empty = np.full((2, 4), -1), np.full((2, 4), -np.inf)
        assert reranker(name)(*all_empty, 3, features=features).tolist() == [[-1] * 3] * 2
        nobody = make_world(0, n_users=1)
        nobody.user_subtopics = np.empty((0, 6))
        no_users = np.empty((0, 4), np.int64), np.empty((0, 4))
        assert reranker(name)(*no_users, 3, features=nobody.features).shape == (0, 3)

    @pytest.mark.usefixtures("engine")
    def test_a_score_of_minus_infinity_or_an_item_of_minus_one_is_no_candidate(self) -> None:
        assert mmr([[0, -1, 2]], [[-np.inf, 9.0, 1.0]], 3).tolist() == [[2, -1, -1]]

    @pytest.mark.usefixtures("engine")
    def test_candidates_are_ranked_by_score_and_equals_stay_as_they_stand(self) -> None:
        picks = ExposureAware(trade_off=0)([[2, 1, 0]], [[1.0, 2.0, 1.0]], 3)
        assert picks.tolist() == [[1, 2, 0]]

    def test_the_lists_are_fit_for_the_metrics(self, make_world: Any) -> None:
        world = make_world(0, padded=True)
        picks = DPP()(world.candidates, world.scores, 10, features=world.features)
        assert Lists(picks, Context(n_items=40)).depth == 10

    @pytest.mark.usefixtures("engine")
    def test_subtopics_of_the_data_layer(self) -> None:
        subtopics = Subtopics.from_pairs(np.array([0, 1, 2]), ["a", "a", "b"], 3)
        features = Features(
            subtopics=subtopics, user_subtopics=subtopic_probabilities([[1, 0, 1], [0, 0, 1]], subtopics)
        )
        assert XQuAD(trade_off=0.9)(CANDIDATES, SCORES, 2, features=features).tolist() == [[0, 2], [2, 1]]


class TestErrors:
    @pytest.mark.parametrize("name", sorted(RERANKERS))
    @pytest.mark.parametrize("trade_off", [-0.1, 1.1, float("nan"), "much", None])
    def test_the_knob_goes_from_0_to_1(self, name: str, trade_off: Any) -> None:
        with pytest.raises(InputError, match="trade_off must be a number from 0"):
            reranker(name, trade_off=trade_off)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: MMR(similarity="faces"), "similarity must be one of 'vectors', 'subtopics', not 'faces'"),
            (lambda: XQuAD(intents="mine"), "intents must be one of 'user', 'uniform', not 'mine'"),
            (lambda: SlotFilling(fill="hope"), "fill must be one of 'coverage', 'exposure', not 'hope'"),
            (
                lambda: SlotFilling(slots=-1),
                "slots must be a whole number from 0 up, or None to go by trade_off, not -1",
            ),
            (lambda: SlotFilling(slots=True), "slots must be a whole number"),
            (
                lambda: ExposureAware(seed=0.5),
                "seed must be a whole number from 0 up, or None for the order of the rows",
            ),
            (
                lambda: reranker("optimal", goals={"subtopic_coverage": 1, "fun": 1}),
                "goals are among subtopic_coverage, alpha_ndcg, .*'fun'",
            ),
            (lambda: reranker("optimal", goals={}), "goals are among"),
            (
                lambda: reranker("optimal", goals={"subtopic_coverage": -1}),
                "the weight of goal 'subtopic_coverage' must be a number from 0 to inf",
            ),
            (lambda: reranker("optimal", goals={"ilad": 1, "ilad_subtopics": 1}), "two ways to measure one goal"),
            (lambda: reranker("dpp", theta=1), "re-ranker 'dpp': .*unexpected keyword argument 'theta'"),
            (lambda: reranker("x quad uniform "), "unknown re-ranker 'x quad uniform '; did you mean 'xquad_uniform'"),
            (lambda: reranker("zzz"), "unknown re-ranker 'zzz'; there are calibrated, dpp, dpp_window, exposure, mmr"),
        ],
    )
    def test_settings(self, make: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            make()

    @pytest.mark.parametrize("name", [name for name in RERANKERS if name.startswith("optimal")])
    def test_optimal_lists_need_compiled_code(
        self, name: str, make_world: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = make_world(0)
        monkeypatch.setattr(engine_module, "_compiled", lambda: None)
        with pytest.raises(InputError, match="numba is not installed: pip install numba"):
            reranker(name)(world.candidates, world.scores, 5, features=world.features)
        picks = reranker(name, trade_off=0)(world.candidates, world.scores, 5, features=world.features)
        np.testing.assert_array_equal(picks, world.candidates[:, :5])

    @pytest.mark.parametrize("k", [0, -1, 1.5, "ten", None])
    def test_length_of_lists(self, k: Any) -> None:
        with pytest.raises(InputError, match="k must be a whole number above 0"):
            mmr(k=k)

    @pytest.mark.usefixtures("engine")
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

    @pytest.mark.usefixtures("engine")
    @pytest.mark.parametrize(
        ("name", "features", "message"),
        [
            ("mmr", {}, r"needed but not given: item vectors to compare: Features\(vectors="),
            ("dpp", {"subtopics": VECTORS}, r"Features\(vectors="),
            ("xquad_uniform", {"vectors": VECTORS}, r"what the items are about: Features\(subtopics="),
            ("slots_coverage", {}, r"Features\(subtopics="),
            ("xquad", {"subtopics": VECTORS}, r"what each user cares for: Features\(user_subtopics="),
            (
                "xquad",
                {"subtopics": VECTORS, "user_subtopics": VECTORS},
                "user_subtopics has 3 rows and there are candidates for 2 users; give one row per user",
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
            ({"user_subtopics": [[1.0]]}, r"Features\(subtopics="),
            (
                {"subtopics": np.eye(3), "user_subtopics": [[1.0, 2.0]]},
                r"user_subtopics must have one column per subtopic, 3; got shape \(1, 2\)",
            ),
        ],
    )
    def test_features_that_are_wrong(self, features: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Features(**features)

    def test_interactions_and_subtopics_of_different_catalogues(self) -> None:
        with pytest.raises(InputError, match="the interactions have 2 items and the subtopics 3; index both alike"):
            subtopic_probabilities([[1, 0]], np.eye(3))


class TestRegistry:
    def test_one_signature_for_all(self) -> None:
        names = {tuple(inspect.signature(type(reranker(name)).__call__).parameters) for name in RERANKERS}
        assert names == {("self", "candidates", "scores", "k", "features")}

    def test_names_are_forgiving(self) -> None:
        assert reranker(" xQuAD-Uniform ") == XQuAD(intents="uniform")

    def test_a_new_one_is_a_class_and_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Last(Reranker):
            def choose(self, pool: Any, k: int, features: Features) -> torch.Tensor:  # noqa: ARG002
                return (pool.lengths[:, None] - 1 - torch.arange(k)).clamp(min=-1)

        monkeypatch.setattr("recprism.rerank.registry.RERANKERS", dict(RERANKERS))
        register("last", Last)
        assert reranker("last")(CANDIDATES, SCORES, 2).tolist() == [[2, 1], [1, 2]]
        with pytest.raises(InputError, match="there is a re-ranker called 'last' already"):
            register("last", Last)
        register("last", Last, replace=True)
        with pytest.raises(
            InputError, match=re.escape("a re-ranker's name is lower case, with _ between words, not 'My-Own'")
        ):
            register("My-Own", Last)


def test_without_numba_torch_does_it_all() -> None:
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "scipy", "polars"):
            raise ImportError(f"{name} is blocked in this test")
sys.meta_path.insert(0, Block())
from recprism.rerank import RERANKERS, Features, reranker
features = Features(vectors=[[1, 0], [0, 1], [1, 1]], subtopics=[[1, 0], [0, 1], [1, 1]], user_subtopics=[[1, 2]])
for name in (name for name in RERANKERS if not name.startswith("optimal")):
    assert sorted(reranker(name)([[2, 0, 1]], [[3.0, 2.0, 1.0]], 3, features=features)[0].tolist()) == [0, 1, 2]
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
