"""The sentence of a boosted item: every clause follows from the numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from recprism.errors import InputError
from recprism.explain.boost_reasons import explain_boosts
from recprism.rule.boosts import BoostSearch, ranked_with_boosts

N_USERS, N_ITEMS, K = 40, 25, 4


@pytest.fixture(scope="module")
def ranked():
    generator = np.random.default_rng(0)
    scores = generator.standard_normal((N_USERS, N_ITEMS)) + np.linspace(3, 0, N_ITEMS)
    order = np.argsort(-scores, axis=1)
    return order, np.take_along_axis(scores, order, 1)


@pytest.mark.parametrize("goal", ["shown_often", "shown_3_times", "gini"])
def test_every_clause_follows_from_the_numbers(ranked, goal):
    items, scores = ranked
    found = BoostSearch(items, scores, K, goal=goal, n_items=N_ITEMS).at(0.3)
    reasons = explain_boosts(found, [f"film {item}" for item in range(N_ITEMS)])
    assert len(reasons) == (found.boost > 0).sum() > 0
    assert [it.boost for it in reasons] == sorted((it.boost for it in reasons), reverse=True)
    base = np.bincount(items[:, :K].ravel(), minlength=N_ITEMS)
    lists = np.bincount(ranked_with_boosts(items, scores, found.boost)[0][:, :K].ravel(), minlength=N_ITEMS)
    spans = np.mean(scores[:, 0] - scores[:, -1])
    for reason in reasons:
        item, said = int(reason.item.split()[1]), reason.sentence()
        assert said.startswith(f"film {item} is boosted because ")
        numbers = [float(it) for it in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", said.removeprefix(f"film {item}"))]
        if reason.wanted is None:
            assert numbers[:2] == [base[item], N_USERS]
        elif base[item] < reason.wanted:
            assert f"shown to {base[item]} of {reason.wanted} users wanted" in said
        else:
            assert f"would fall below {reason.wanted} users" in said
        assert f"Now it is shown to {lists[item]} of {N_USERS} users." in said
        assert numbers[-2] == pytest.approx(found.boost[item], rel=0.006)
        assert numbers[-1] == pytest.approx(100 * found.boost[item] / spans, rel=0.006)
        assert reason.to_dict()["code"] == "lifted_exposure"


def test_no_boost_no_reason(ranked):
    found = BoostSearch(*ranked, K, goal="shown_often", n_items=N_ITEMS).at(0.0)
    assert explain_boosts(found, range(N_ITEMS)) == ()
    with pytest.raises(InputError, match="one name per item"):
        explain_boosts(found, ["a"])
