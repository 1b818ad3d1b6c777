"""Caps and spacing by fields of the items: every list keeps them if any list can, and says what it cannot keep."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism import diversify_list
from recprism.errors import InputError
from recprism.forms import RuleFile
from recprism.rule import Constraints
from recprism.serving import ServedRule, load_rule

IDS, SCORES = [f"i{n}" for n in range(9)], np.arange(9, 0, -1.0)
AUTHORS = ["ann", "ann", "ann", "bob", "ann", "bob", "cid", None, ["bob", "dan"]]
KINDS = ["x", "x", "x", "x", "y", "x", "x", "z", "y"]


def keeps(values: list[Any], most: int | None, apart: int | None) -> bool:
    """Whether a list of single values keeps a cap and a spacing, by their definition."""
    real = [it for it in values if it is not None]
    capped = most is None or max(Counter(real).values(), default=0) <= most
    near = [values[a : a + (apart or 1)] for a in range(len(values))]
    return capped and all(len([x for x in some if x is not None]) == len({*some} - {None}) for some in near)


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=2, max_size=7),
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 3)),
    st.one_of(st.none(), st.integers(2, 4)),
    st.sampled_from([0.0, 0.5]),
)
def test_limits_are_kept_if_any_list_keeps_them(
    authors: list[Any], k: int, most: int | None, apart: int | None, trade_off: float
) -> None:
    n, k = len(authors), min(k, len(authors))
    kept = {
        "max_items": {} if most is None else {"author": most},
        "spacing": {} if apart is None else {"author": apart},
    }
    found = diversify_list(
        range(n),
        np.arange(n, 0, -1.0),
        categories=["x", "y"] * (n // 2) + ["x"] * (n % 2),
        k=k,
        trade_off=trade_off,
        constraints=kept,
        fields={"author": authors},
        reasons=False,
    )
    possible = any(keeps([authors[at] for at in one], most, apart) for one in permutations(range(n), k))
    for shown in (found.ids, found.base):
        assert len(set(shown)) == k
        assert keeps([authors[at] for at in shown], most, apart) == possible
    assert (found.unmet == ()) == possible


def test_a_cap_takes_the_next_best_items() -> None:
    found = diversify_list(
        IDS,
        SCORES,
        categories=KINDS,
        k=5,
        trade_off=0,
        fields={"author": AUTHORS},
        constraints={"max_items": {"author": 2}},
    )
    assert found.ids == found.base == ("i0", "i1", "i3", "i5", "i6")
    assert [it.codes for it in found.reasons][4] == ("field",)
    assert "limit on a field" in found.reasons[4].sentence()


def test_spacing_moves_items_no_more_than_needed() -> None:
    found = diversify_list(
        IDS,
        SCORES,
        categories=KINDS,
        k=5,
        trade_off=0,
        fields={"author": AUTHORS},
        constraints={"spacing": {"author": 2}},
    )
    assert found.ids == ("i0", "i3", "i1", "i5", "i2")
    assert found.reasons[0].codes != ("field",)


def test_the_field_category_and_pins() -> None:
    kept = {"max_items": {"category": 2}, "pinned": {1: "i0"}, "banned": ["i1"], "spacing": {"author": 3}}
    found = diversify_list(IDS, SCORES, categories=KINDS, k=4, fields={"author": AUTHORS}, constraints=kept)
    for shown in (found.ids, found.base):
        assert shown[0] == "i0"
        assert max(Counter(KINDS[IDS.index(it)] for it in shown).values()) == 2
        assert all(AUTHORS[IDS.index(it)] != "ann" for it in shown[1:3])
    assert found.unmet == ()


def test_what_cannot_be_kept_is_reported() -> None:
    kept = {"max_items": {"author": 1}, "spacing": {"author": 3}}
    found = diversify_list(
        IDS[:3], SCORES[:3], categories=KINDS[:3], k=3, fields={"author": ["a"] * 3}, constraints=kept
    )
    assert [(it.constraint, it.places) for it in found.unmet] == [
        ("at most 1 of one author", 2),
        ("one author at most once in 3 places", 2),
    ]


def test_other_limits_stay_kept() -> None:
    kept = {"max_items": {"author": 1}, "min_items": {"y": 1, "z": 1}}
    found = diversify_list(IDS, SCORES, categories=KINDS, k=4, fields={"author": AUTHORS}, constraints=kept)
    assert found.unmet == ()
    assert {"y", "z"} <= {KINDS[IDS.index(it)] for it in found.ids}


def test_no_runner_up_breaks_a_limit() -> None:
    generator = np.random.default_rng(0)
    authors = [f"a{it}" for it in generator.integers(0, 8, 40)]
    found = diversify_list(
        range(40),
        generator.random(40),
        embeddings=generator.standard_normal((40, 5)),
        k=8,
        trade_off=0.4,
        fields={"author": authors},
        constraints={"max_items": {"author": 2}, "spacing": {"author": 3}},
    )
    shown = [authors[at] for at in found.ids]
    assert keeps(shown, 2, 3)
    for place, reason in enumerate(found.reasons):
        if reason.runner_up is not None:
            assert keeps([*shown[:place], authors[reason.runner_up.item], *shown[place + 1 :]], 2, 3)


def test_fields_travel_in_the_file_of_a_rule_and_in_requests(tmp_path: Path) -> None:
    kept = {"max_items": {"author": 1}}
    file = RuleFile.of(IDS, categories=KINDS, k=3, trade_off=0, fields={"author": AUTHORS}, constraints=kept)
    file.write(tmp_path / "rule")
    for served in (ServedRule(file), load_rule(tmp_path / "rule")):
        assert served.rerank(IDS, SCORES).ids == ("i0", "i3", "i6")
        assert served.rerank([*IDS[::-1], "new"], [*SCORES[::-1], 10]).ids == ("new", "i0", "i3")
        assert served.rerank(IDS[:4], SCORES[:4], fields={"author": [1, 1, "2", 3]}).ids == ("i0", "i2", "i3")


@pytest.mark.parametrize(
    ("fields", "kept", "said"),
    [
        ({}, {"max_items": {"author": 2}}, "there is no field 'author'; there are category"),
        ({"author": AUTHORS[:2]}, {}, "the field 'author' needs one value, several, or None for each of 9 items"),
        ({"author": [1.5] * 9}, {}, "the field 'author' has 1.5"),
        (["author"], {}, "fields are {name: one value per item}"),
        ({}, {"max_items": {"category": 0}}, "max_items of category must be a whole number from 1 up"),
        ({}, {"spacing": 3}, "spacing is {field: places}"),
    ],
)
def test_bad_fields_are_one_sentence(fields: Any, kept: Any, said: str) -> None:
    with pytest.raises(InputError) as problem:
        diversify_list(IDS, SCORES, categories=KINDS, fields=fields, constraints=kept)
    assert said in str(problem.value)


def test_a_field_that_the_items_lack_is_refused() -> None:
    with pytest.raises(InputError, match="there is no field 'author' of the items; there are kind"):
        Constraints(spacing={"author": 2}).resolve(np.arange(3), ("x",), {"kind": [[1], [2], []]})
