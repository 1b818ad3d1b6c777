"""Lists that come after other pages: what they avoid, what they never repeat, and what a request may not say."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recprism import diversify_list
from recprism.errors import InputError
from recprism.forms import RuleFile
from recprism.serving import ServedRule

KINDS = {"a": "jazz", "b": "jazz", "c": "rock", "d": "jazz", "e": "rock", "f": "folk"}
SCORES = [6.0, 5.5, 5.0, 4.5, 4.0, 3.5]


def ask(**options: Any) -> Any:
    given: dict[str, Any] = {"categories": list(KINDS.values()), "k": 2, "trade_off": 0.5, **options}
    return diversify_list(list(KINDS), SCORES, **given)


def test_page_two_brings_what_page_one_lacked() -> None:
    """The first page has jazz and rock. Folk is new; a second page that forgets the first has jazz and rock."""
    one = ask()
    assert one.ids == ("a", "c")
    assert ask(shown=[(it, 1) for it in one.ids]).ids == ("b", "f")
    assert ask(shown=[(it, 1) for it in one.ids], half_life=0.01).ids == ("b", "e")


def test_what_was_shown_long_ago_counts_less() -> None:
    """A hundred pages later, a category counts as new again; with a long half-life it does not."""
    late = [("a", 100), ("c", 100)]
    assert ask(shown=late).ids == ("b", "e")
    assert ask(shown=late, half_life=1000).ids == ask(shown=[("a", 1), ("c", 1)]).ids == ("b", "f")


def test_items_come_again_after_as_many_pages_as_asked() -> None:
    shown = [("a", 1), ("c", 2), ("b", 3)]
    assert "a" not in ask(shown=shown, no_repeat=1, k=6).ids
    assert {"c", "b"} <= set(ask(shown=shown, no_repeat=1, k=6).ids)
    assert set(ask(shown=shown, no_repeat=2, k=6).ids) == {"b", "d", "e", "f"}
    assert len(ask(shown=shown, no_repeat=0, k=6).ids) == 6
    assert set(ask(shown=shown, k=6).ids) == {"d", "e", "f"}


def random_case(seed: int) -> tuple[ServedRule, list[str], NDArray[Any], NDArray[Any], NDArray[Any]]:
    generator = np.random.default_rng(seed)
    ids, member = [f"i{n}" for n in range(24)], generator.random((24, 6)) < 0.3
    vectors = generator.standard_normal((24, 4))
    goal = ("subtopic_coverage", "ilad", "subtopic_coverage+ilad", "ilad_subtopics")[seed % 4]
    file = RuleFile.of(ids, categories=member, embeddings=vectors, goal=goal, k=4, trade_off=(0.1, 0.4, 0.8)[seed % 3])
    return ServedRule(file), ids, generator.random(24), member, vectors


def worth(rule: ServedRule, order: list[int], *about: Any) -> Any:
    """What a list is worth after pages with ``ages`` {item: age}, by plain loops."""
    (pool, scores, member, vectors, ages), t, k = about, rule.file.trade_off, len(order)
    goals = rule.file.goals
    discount = 1 / np.log2(np.arange(2, k + 2))
    low, high = scores[pool].min(), scores[pool].max()
    value = (1 - t) * float((scores[order] - low) / (high - low) @ discount) / discount.sum()
    for category in range(member.shape[1]) if "subtopic_coverage" in goals else []:
        covered = max((0.5**age for item, age in ages.items() if member[item, category]), default=0.0)
        price = t * goals["subtopic_coverage"] * rule.file.units["subtopic_coverage"]
        value += price * (1 - covered) * bool(member[order, category].any())
    for goal, rows in (("ilad", vectors), ("ilad_subtopics", member.astype(float))):
        price = t * goals.get(goal, 0.0) * rule.file.units.get(goal, 0.0)
        pairs = [(a, b, 1.0) for a, b in product(order, order) if a < b]
        for a, b, weight in [*pairs, *((a, b, 0.5**age) for a in order for b, age in ages.items())]:
            lengths = np.linalg.norm(rows[a]) * np.linalg.norm(rows[b])
            value += price * weight * (1 - rows[a] @ rows[b] / lengths) if lengths else 0.0
    return value


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_no_exchange_is_worth_more_after_pages(seed: int) -> None:
    rule, ids, scores, member, vectors = random_case(seed)
    generator = np.random.default_rng(seed)
    ages = dict(zip(generator.permutation(24)[:9].tolist(), [3] * 3 + [2] * 3 + [1] * 3, strict=True))
    answer = rule.rerank(ids, scores, shown=[(ids[it], age) for it, age in ages.items()], no_repeat=2, reasons=False)
    pool = [it for it in range(24) if ages.get(it, 9) > 2]
    chosen = [ids.index(it) for it in answer.ids]
    assert set(chosen) <= set(pool)
    about = pool, scores, member, vectors, ages
    best = worth(rule, chosen, *about)
    for place, other in product(range(4), set(pool) - set(chosen)):
        exchanged = sorted([*chosen[:place], *chosen[place + 1 :], other], key=lambda it: -scores[it])
        assert worth(rule, exchanged, *about) <= best + 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_no_pages_are_the_same_as_none(seed: int) -> None:
    rule, ids, scores, *_ = random_case(seed)
    plain = rule.rerank(ids, scores).to_dict()
    assert rule.rerank(ids, scores, shown=[]).to_dict() == plain
    unknown = rule.rerank(ids, scores, shown=[("nobody knows it", 1)])
    assert unknown.ids == tuple(plain["ids"])
    assert unknown.notes[0].startswith("the rule does not know 1 of 1 items of earlier pages")
    pages = [(it, page) for page in (1, 2) for it in ids[6 * page : 6 * page + 6]]
    asked = [{"candidates": ids, "scores": scores, **more} for more in ({}, {"shown": pages}, {"shown": []})]
    together = [it.to_dict() for it in rule.rerank_many(asked, threads=1)]
    assert together == [plain, rule.rerank(ids, scores, shown=pages[::-1]).to_dict(), plain]


def test_a_reason_names_what_earlier_pages_lacked() -> None:
    """Folk would not be on this page had it been on the one before; long after that it would."""
    pages = [("a", 1), ("c", 1), ("b", 2)]
    folk = ask(shown=pages).reasons[-1]
    assert (folk.item, folk.not_lately) == ("f", {"folk": 2})
    assert folk.for_users() == "Added for variety: folk, which the base list lacked; no folk on your last two pages."
    assert "No folk on your last two pages; had the last one had it, this item would not be here." in folk.sentence()
    assert "no folk on your last two pages" in folk.in_brief()
    assert ask(shown=[*pages, ("g", 1)]).reasons[-1].not_lately == {"folk": 2}
    again = diversify_list([*KINDS, "g"], [*SCORES, -9], categories=[*KINDS.values(), "folk"], k=2, trade_off=0.5)
    assert again.reasons[-1].not_lately == {}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_a_named_cause_is_one(seed: int) -> None:
    """Had the page before had the category, the whole rule would not show the item."""
    rule, ids, scores, member, _ = random_case(4 * seed)  # the goal is coverage
    pages = [(it, page) for page in (1, 2) for it in ids[5 * page : 5 * page + 5]]
    answer = rule.rerank(ids, scores, shown=pages)
    for reason in answer.reasons:
        for name, n in reason.not_lately.items():
            category = rule.names.index(name)
            assert not any(member[ids.index(it), category] for it, age in pages if age <= n)
            kinds = [[*np.flatnonzero(row)] for row in member] + [[category]]
            with_one_more = ServedRule(
                RuleFile.of(
                    [*ids, "one more"],
                    categories=[[rule.names[at] for at in row] for row in kinds],
                    goal={"subtopic_coverage": 1.0},
                    k=4,
                    trade_off=rule.file.trade_off,
                )
            )
            found = with_one_more.rerank(ids, scores, shown=[*pages, ("one more", 1)], reasons=False)
            assert reason.item not in found.ids


def test_distances_to_earlier_pages_are_named() -> None:
    vectors = np.eye(4)[[0, 0, 1, 2, 3, 3]]
    options: dict[str, Any] = {"categories": None, "embeddings": vectors, "k": 2, "trade_off": 0.6}
    found = ask(shown=[("a", 1), ("c", 1)], **options)
    assert "b" not in found.ids  # it is a copy of what the page before had
    new = next(it for it in found.reasons if it.newcomer)
    assert new.after_pages
    assert "it differs more from the rest of your list and from earlier pages than" in new.for_users()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shown": "abc"}, "shown is a list of (id, age in pages), not 'abc'"),
        ({"shown": 3}, "shown is a list of (id, age in pages), not 3"),
        ({"shown": ["a"]}, "shown is a list of (id, age in pages), and has 'a'"),
        ({"shown": [("a", 1, 2)]}, "shown is a list of (id, age in pages), and has ('a', 1, 2)"),
        ({"shown": [("a", -1)]}, "the age of a shown item is a number of pages, 0 or more, and that of 'a' is not"),
        ({"shown": [(1, math.nan)]}, "the age of a shown item is a number of pages, 0 or more, and that of 1 is not"),
        ({"shown": [(1, "1")]}, "the age of a shown item is a number of pages, 0 or more, and that of 1 is not"),
        ({"shown": [], "no_repeat": 1.5}, "no_repeat is a number of pages, 0 or more, not 1.5"),
        ({"shown": [], "no_repeat": True}, "no_repeat is a number of pages, 0 or more, not True"),
        ({"shown": [], "half_life": 0}, "half_life is a number of pages above 0, not 0"),
        ({"no_repeat": 2}, "no_repeat is about earlier pages; give shown=[(id, age), ...], [] for a first page"),
        ({"half_life": 2}, "half_life is about earlier pages; give shown=[(id, age), ...], [] for a first page"),
    ],
)
def test_bad_pages_are_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        ask(**options)
    assert str(refused.value) == sentence
