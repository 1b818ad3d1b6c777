"""NaN and infinity are stopped where they come in, and the sentence says where that was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from recprism.cmb import CMB
from recprism.errors import InputError
from recprism.metrics import Context, Lists, Metric, evaluate
from recprism.models import BPRMF, Factors
from recprism.ranking import topk
from recprism.ranking.scores import rank_scores
from recprism.runs.run import Run

IDS = ["ann", "bob", "cid"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors(bad: float) -> None:
    good, broken = np.ones((3, 4)), np.ones((3, 4))
    broken[1, 2] = bad
    with pytest.raises(InputError, match=r"user vectors hold NaN or infinity, first in row 1 \(user 'bob'\), column 2"):
        Factors.from_arrays(broken, good, user_ids=IDS)
    with pytest.raises(InputError, match=r"item vectors hold NaN or infinity, first in row 1, column 2"):
        Factors.from_arrays(good, broken)
    with pytest.raises(InputError, match=r"user vectors hold NaN or infinity, first in row 1 .* column 2"):
        topk(broken, good, 2)


def test_scores_of_a_model_of_ones_own() -> None:
    scores = torch.zeros(5, 4)
    scores[3, 1] = torch.nan
    with pytest.raises(InputError, match="gave nan for user row 3 and item 1"):
        rank_scores(lambda first, last: scores[first:last], (5, 4), 2, block=2)


def test_a_metric_of_ones_own() -> None:
    def wrong(lists: Lists, context: Context) -> torch.Tensor:
        return torch.tensor([1.0, torch.inf, torch.nan])

    metric = Metric("mine", wrong)
    context = Context(relevant=np.eye(3))
    with pytest.raises(InputError, match=r"mine@1 gave infinity for user 'bob' \(row 1; 1 users in all\)"):
        evaluate([[0], [1], [2]], context, [(metric, 1)], users=IDS, bootstrap=0)
    with pytest.raises(InputError, match=r"mine@1 gave infinity for user row 1 \(1 users in all\)"):
        evaluate([[0], [1], [2]], context, [(metric, 1)], bootstrap=0)
    together = Metric("all", lambda *_: torch.tensor(-torch.inf), per_user=False)
    with pytest.raises(InputError, match="all@1 gave infinity for all lists together"):
        evaluate([[0], [1], [2]], context, [(together, 1)], users=IDS, bootstrap=0)


class OneUserWrong:
    """A goal that gives infinity for the user of this history, wherever the user's row is.

    only_in_exchanges: of whole lists it is finite, and infinite once an item is taken out
    """

    def __init__(self, history: torch.Tensor, *, only_in_exchanges: bool = False) -> None:
        self.history, self.only_in_exchanges = history, only_in_exchanges
        self.__name__ = "wrong"

    def __call__(self, lists: Lists, context: Context) -> torch.Tensor:
        mine = (context.history == self.history).all(1)
        if self.only_in_exchanges:
            mine &= (lists.items < 0).any(1)
        return torch.where(mine, torch.inf, 1.0).to(torch.float64)


GOALS: dict[str, dict[str, Any]] = {
    "marginal": {"credit": "marginal", "candidates": 3},
    "only in exchanges": {"credit": "marginal", "candidates": 3},
    "shared": {"credit": "shared", "n_arms": 5},
    "a sample": {"credit": "shared", "n_arms": 5, "users_per_step": 80},
}


@pytest.mark.parametrize("case", GOALS)
def test_a_goal_of_ones_own(trained_run: Callable[..., Run], case: str) -> None:
    """The user is named by id and by the row among all users, whoever ranks for the user."""
    run = trained_run()
    split, row = run.split(), 77
    histories = Context(train=split.train, categories=run.categories()).history
    assert (histories == histories[row]).all(1).sum() == 1 and split.user_ids[row] != row
    wrong = OneUserWrong(histories[row], only_in_exchanges=case == "only in exchanges")
    search = CMB(diversity=wrong, iterations=8, device="cpu", **GOALS[case])
    with pytest.raises(InputError) as refused:
        search.fit(run.factors(), split, run.categories())
    assert str(refused.value) == (
        f"wrong gave infinity for user {split.user_ids[row].item()!r} (row {row}); "
        "a metric gives finite numbers, and NaN for a user it cannot judge"
    )


def test_a_learning_rate_that_no_float32_can_hold() -> None:
    """One that makes the training break down is in tests/models/test_training.py."""
    with pytest.raises(InputError, match=r"learning_rate is 1e\+38; pass a number above 0 and below 1e\+37"):
        BPRMF(learning_rate=1e38)
