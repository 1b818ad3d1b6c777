"""Caps and spacing by fields of the items in the lists of a problem and of a run: kept in all, reported where not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.data import SparseRows
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.forms import collect_rule
from recprism.models import Factors
from recprism.serving import ServedRule

ITEMS, USERS, K = 60, 8, 10
AUTHORS = [f"author {n % 9}" if n % 9 else None for n in range(ITEMS)]
KEPT: dict[str, Any] = {"max_items": {"author": 2}, "spacing": {"author": 3}}


def problem(**options: Any) -> Problem:
    generator = np.random.default_rng(0)
    user, item = (generator.standard_normal((n, 4)).astype(np.float32) for n in (USERS, ITEMS))
    item[1::9] += user.mean(0)  # one author is liked by most
    factors = Factors.from_arrays(user, item)
    empty, test = (SparseRows.coerce(generator.random((USERS, ITEMS)) < share) for share in (0.0, 0.2))
    split = Split(SparseRows.coerce(generator.random((USERS, ITEMS)) < 0.1), empty, test, *factors_ids(factors))
    of_item, of_category = np.nonzero(generator.random((ITEMS, 4)) < 0.3)
    categories = Categories.from_pairs(of_item, np.array([*"abcd"])[of_category], ITEMS)
    return Problem(factors, split, categories, "test", K, **{"fields": {"author": AUTHORS}, **options})


def factors_ids(factors: Factors) -> tuple[Any, Any]:
    return factors.user_ids, factors.item_ids


def missed(lists: Any) -> int:
    """Places too many of one author, and places too near to the same author, by their definition."""
    found = 0
    for row in lists:
        authors = [AUTHORS[item] for item in row]
        found += sum(max(0, authors.count(it) - 2) for it in {*authors} - {None})
        found += sum(it is not None and it in authors[max(0, at - 2) : at] for at, it in enumerate(authors))
    return found


def test_every_list_keeps_caps_and_spacing() -> None:
    free, kept = problem(), problem(constraints=KEPT)
    rule = rule_at(kept, "subtopic_coverage", 0.3)
    assert missed(free.base_lists) > 0 < missed(free.rank(rule)[0])
    for lists in (kept.base_lists, kept.rank(rule)[0], kept.rank(kept.base)[0], kept.rank(rule, 20)[0][:, :K]):
        assert missed(lists) == 0
        report = kept.violations(lists)
        assert report is not None and report.none and len(report.rows) == 2
    assert kept.live().fields == kept.fields
    again = ServedRule(collect_rule(kept, rule))
    items, scores = (it[0] for it in kept.candidates)
    shown = items >= 0
    found = again.rerank(items[shown], scores[shown], history=kept.seen.row(0).tolist())
    assert (list(found.ids), list(found.base)) == (kept.rank(rule)[0][0].tolist(), kept.base_lists[0].tolist())


def test_what_cannot_be_kept_is_counted() -> None:
    kept = problem(constraints={"max_items": {"kind": 3}}, fields={"kind": ["one"] * ITEMS})
    report = kept.violations(kept.base_lists)
    assert report is not None
    assert [(it.constraint, it.lists, it.places, it.worst) for it in report.rows] == [
        ("at most 3 of one kind", USERS, 7 * USERS, 7)
    ]


def test_other_fields_are_another_question_and_a_certificate_covers_them() -> None:
    one, other = problem(constraints=KEPT), problem(constraints=KEPT, fields={"author": AUTHORS[::-1]})
    assert one.constraint_facts != other.constraint_facts
    rule = rule_at(one, "subtopic_coverage", 0.3)
    assert collect_rule(one, rule).tested() != collect_rule(other, rule).tested()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fields": None}, "there is no field 'author' of the items; there are category"),
        ({"fields": {"author": AUTHORS[:3]}}, "one value, several, or None for each of 60 items"),
    ],
)
def test_bad_fields_are_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        problem(constraints=KEPT, **options)
