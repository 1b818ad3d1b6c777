"""One call for one list: the rule of the library on candidates alone, its reasons, and what it refuses."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism import diversify_list
from recprism.errors import InputError
from recprism.forms import RuleFile
from recprism.rule import Constraints
from recprism.serving import ServedRule, load_rule

NAMES = ("art", "bread", "cats", "dogs")
IDS, SCORES = ["a", "b", "c"], [3.0, 2.0, 1.0]
KINDS = ["x", "y", None]


def candidates(seed: int, n: int) -> tuple[list[str], NDArray[Any], list[list[str]], NDArray[Any]]:
    """Ids, scores, up to four categories each, and vectors in a few clusters."""
    generator = np.random.default_rng(seed)
    has = generator.random((n, len(NAMES))) < 0.4
    vectors = generator.standard_normal((4, 6))[generator.integers(0, 4, n)] + generator.standard_normal((n, 6)) / 4
    ids = [f"d{at}" for at in generator.permutation(n)]
    return ids, generator.standard_normal(n), [[NAMES[at] for at in np.flatnonzero(row)] for row in has], vectors


def worth(
    order: list[int], goal: str, scores: NDArray[Any], own: list[list[str]], vectors: NDArray[Any], t: float
) -> float:
    """What a list is worth, in plain numpy: discounted relevance, and the goal as its metric counts it."""
    k, discount = len(order), 1 / np.log2(np.arange(2, len(order) + 2))
    relevance = (scores - scores.min()) / (scores.max() - scores.min())
    value = (1 - t) * float(relevance[order] @ discount) / discount.sum()
    if goal == "subtopic_coverage":
        reachable = min(len({name for some in own for name in some}), k * max(map(len, own)))
        return value + t * len({name for at in order for name in own[at]}) / max(1, reachable)
    rows = vectors if goal == "ilad" else np.array([[name in some for name in NAMES] for some in own], float)
    lengths = np.linalg.norm(rows, axis=1)
    pairs = [(a, b) for a in order for b in order if a < b and lengths[a] and lengths[b]]
    apart = sum(1 - rows[a] @ rows[b] / (lengths[a] * lengths[b]) for a, b in pairs)
    return value + t * apart * 2 / (k * (k - 1))


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(3, 16), st.integers(2, 5), st.sampled_from([0.1, 0.2, 0.5, 0.9]))
@pytest.mark.parametrize("goal", ["subtopic_coverage", "ilad_subtopics", "ilad"])
def test_no_exchange_of_one_item_is_worth_more(goal: str, seed: int, n: int, k: int, t: float) -> None:
    ids, scores, own, vectors = candidates(seed, n)
    k = min(k, n - 1)
    found = diversify_list(ids, scores, categories=own, embeddings=vectors, goal=goal, k=k, trade_off=t, reasons=False)
    rank = {at: place for place, at in enumerate(np.argsort(-scores, kind="stable").tolist())}
    chosen = sorted(map(ids.index, found.ids), key=rank.__getitem__)
    assert found.ids == tuple(ids[at] for at in chosen)
    best = worth(chosen, goal, scores, own, vectors, t)
    for place, other in product(range(k), set(range(n)) - set(chosen)):
        exchanged = sorted([*chosen[:place], *chosen[place + 1 :], other], key=rank.__getitem__)
        assert worth(exchanged, goal, scores, own, vectors, t) <= best + 1e-9


def test_the_answer_has_the_base_list_the_costs_and_reasons() -> None:
    scores = np.array([5, 4, 3, 2, 1, 0])
    found = diversify_list(range(6), scores, categories=["a", "a", "a", "b", ["b", "c"], None], k=3, trade_off=0.5)
    assert (found.ids, found.base) == ((0, 1, 4), (0, 1, 2))
    assert found.costs == pytest.approx((0, 0, 0.4))
    assert [it.codes[0] for it in found.reasons] == ["relevance", "relevance", "new_category"]
    assert found.reasons[2].new_categories == ("b", "c")
    assert found.as_tested == ("nothing was certified",)
    assert (found.trade_off, found.notes) == (
        0.5,
        ("6 candidates for a list of 3 leave little choice; give 9 or more",),
    )
    assert diversify_list(range(6), scores, categories=["a"] * 6, k=3, reasons=False).reasons == ()


def test_a_reason_says_what_an_item_that_left_was_like() -> None:
    """Of two lists in one direction, the second leaves; its cosine to what stays is computed here."""
    ids, scores, _, vectors = candidates(3, 30)
    found = diversify_list(ids, scores, embeddings=vectors, k=5, trade_off=0.6)
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    told = [it.replaced for it in found.reasons if it.replaced is not None]
    assert len(told) == found.swaps > 1
    for left in told:
        cosines = [float(unit[ids.index(left.item)] @ unit[ids.index(one)]) for one in found.ids]
        assert left.alike == (int(np.argmax(cosines)) + 1, pytest.approx(max(cosines), abs=1e-6))
        assert (
            f"which is {max(cosines):.2f} alike to place {left.alike[0]}" in found.reasons[-1].sentence()
            or len(told) > 1
        )


def test_lengths_types_and_units_of_embeddings_do_not_matter() -> None:
    ids, scores, _, vectors = candidates(4, 40)
    made = diversify_list(ids, scores, embeddings=vectors, reasons=False).ids
    lengths = np.geomspace(1e-200, 1e200, 40)[:, None]
    assert diversify_list(ids, scores, embeddings=vectors * lengths, reasons=False).ids == made
    assert diversify_list(ids, scores * 7 - 3, embeddings=vectors.tolist(), reasons=False).ids == made


@pytest.mark.slow
def test_single_precision_gives_the_same_list_with_the_same_reasons() -> None:
    """It compiles kernels of its own."""
    for seed in range(5):
        ids, scores, own, vectors = candidates(seed, 60)
        single, double = (
            diversify_list(ids, scores, categories=own, embeddings=vectors.astype(kind), trade_off=0.4)
            for kind in (np.float32, np.float64)
        )
        assert single.ids == double.ids
        assert [it.codes for it in single.reasons] == [it.codes for it in double.reasons]
        assert single.swaps > 0


def test_a_matrix_of_categories_is_the_same_as_their_names() -> None:
    ids, scores, own, _ = candidates(5, 30)
    matrix = np.array([[name in some for name in NAMES] for some in own])
    named, numbered = (diversify_list(ids, scores, categories=it, k=4, trade_off=0.4) for it in (own, matrix))
    assert named.ids == numbered.ids != named.base
    numbered_reasons = [tuple(NAMES[int(it.split()[1])] for it in one.new_categories) for one in numbered.reasons]
    assert [set(one.new_categories) for one in named.reasons] == list(map(set, numbered_reasons))


def test_constraints_hold_in_both_lists() -> None:
    ids, scores, own, _ = candidates(6, 30)
    kept = {"banned": [ids[3]], "pinned": {1: ids[4]}, "max_share": {"art": 0.25}}
    found = diversify_list(ids, scores, categories=own, k=4, constraints=kept)
    for shown in (found.ids, found.base):
        assert (shown[0], ids[3] in shown) == (ids[4], False)
        assert sum("art" in own[ids.index(one)] for one in shown) <= 1
    assert found.unmet == ()


def test_too_few_candidates_are_told() -> None:
    few = diversify_list(IDS, SCORES, categories=KINDS)
    assert (few.ids, few.notes) == (("a", "b", "c"), ("3 candidates for a list of 10: the list has all of them",))
    same = diversify_list(range(40), range(40), categories=["one"] * 40)
    assert same.notes == ("no other candidate has a category that the list lacks",)
    assert diversify_list([], [], categories=[], embeddings=[]).ids == ()


def test_settings_and_items_are_stored(tmp_path: Path) -> None:
    """A rule of settings is a rule file: it answers many requests, and is written and served as any other."""
    ids, scores, own, vectors = candidates(7, 50)
    file = RuleFile.of(ids, categories=own, embeddings=vectors, k=4, trade_off=0.5)
    assert repr(file).endswith(f"trade_off=0.5, k=4, {len(ids)} items, {len(file.names)} categories)")
    file.write(tmp_path / "rule")
    for served in (ServedRule(file), load_rule(tmp_path / "rule")):
        found = served.rerank(ids, scores)
        assert found.ids == diversify_list(ids, scores, categories=own, embeddings=vectors, k=4, trade_off=0.5).ids
        assert served.rerank([*ids[:20], "new"], [*scores[:20], 9.0]).ids[0] == "new"


@pytest.mark.parametrize(
    ("ids", "scores", "options", "said"),
    [
        (IDS, SCORES, {}, "give categories or embeddings"),
        (IDS, SCORES[:2], {"categories": KINDS}, "3 candidates and scores of shape"),
        (IDS, [1, np.nan, 2], {"categories": KINDS}, "scores must be numbers"),
        (IDS, ["a", "b", "c"], {"categories": KINDS}, "scores are not numbers"),
        (["a", "a", "b"], SCORES, {"categories": KINDS}, "'a' occurs more than once"),
        ([None, "a", "b"], SCORES, {"categories": KINDS}, "one is missing"),
        ("abc", SCORES, {"categories": KINDS}, "not the text 'abc'"),
        (IDS, SCORES, {"categories": KINDS, "goal": "nothing"}, "there is no goal 'nothing'"),
        (IDS, SCORES, {"categories": KINDS, "goal": "ilad"}, "the goal ilad needs embeddings"),
        (IDS, SCORES, {"categories": KINDS, "goal": {}}, "goal is a name"),
        (IDS, SCORES, {"categories": KINDS, "goal": {"subtopic_coverage": 0}}, "pass a number above 0"),
        (IDS, SCORES, {"categories": KINDS, "k": 0}, "k is 0"),
        (IDS, SCORES, {"categories": KINDS, "trade_off": 2}, "trade_off: 2 is not a share"),
        (IDS, SCORES, {"categories": "xyz"}, "categories are one entry per item"),
        (IDS, SCORES, {"categories": KINDS[:2]}, "categories of 2 items"),
        (IDS, SCORES, {"categories": np.eye(2)}, "categories of 2 items"),
        (IDS, SCORES, {"categories": [1, 2, 3]}, "the categories of item 1 are 1"),
        (IDS, SCORES, {"categories": np.full((3, 2), np.nan)}, "a value that is no number"),
        (IDS, SCORES, {"embeddings": np.eye(3)[:2]}, "embeddings have shape (2, 3)"),
        (IDS, SCORES, {"embeddings": [["a"], ["b"], ["c"]]}, "embeddings have shape (3, 1)"),
        (IDS, SCORES, {"embeddings": [[1], [2, 3], [4]]}, "lists of different lengths"),
        (IDS, SCORES, {"embeddings": np.diag([1, 0, 1])}, "the embedding of item 'b' is zero"),
        (IDS, SCORES, {"embeddings": np.diag([1, np.inf, 1])}, "the embedding of item 'b' holds a value"),
        (IDS, SCORES, {"categories": KINDS, "constraints": {"most": 1}}, "there is no constraint 'most'"),
        (IDS, SCORES, {"categories": KINDS, "constraints": {"max_share": {"q": 0.5}}}, "there is no category 'q'"),
        (IDS, SCORES, {"categories": KINDS, "constraints": {"tail_floor": 0.5}}, "tail_floor"),
    ],
)
def test_bad_input_is_one_sentence(ids: Any, scores: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as problem:
        diversify_list(ids, scores, **options)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_an_unknown_constraint_is_told_those_of_one_list_only() -> None:
    with pytest.raises(InputError, match=r"there are banned, pinned, min_.*, max_items, spacing$"):
        diversify_list(IDS, SCORES, categories=KINDS, constraints={"most": 1})
    with pytest.raises(InputError, match=r"spacing, tail_floor, per_user_diversity$"):
        Constraints.parse({"most": 1})
