"""The same bits on one thread and on two: training, search, rules and their vectors, fronts, lists, figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
WORK = """
import hashlib, json, sys
import numpy as np
import torch
from recprism.budget.question import BudgetQuestion
from recprism.rule.goal import Goal
from recprism.cmb import CMB
from recprism.data import load_dataset
from recprism.models import BPRMF, LightGCN
from recprism.contest.fronts import frontier
from recprism.budget.problem import Problem
from recprism.budget.within import within_budget
from recprism.forms.form import compiled_form

data = load_dataset("ml-latest-small")
split = data.split(seed=0)
found = {"threads": torch.get_num_threads()}


def told(name, *arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    found[name] = digest.hexdigest()


for model in (BPRMF(dim=16, epochs=2), LightGCN(dim=16, epochs=1)):
    factors = model.fit(split, seed=0, device="cpu")
    told(f"train {model.name}", factors.user, factors.item)
factors = BPRMF(dim=16, epochs=2).fit(split, seed=0, device="cpu")
test, validation = (Problem(factors, split, data.categories, part) for part in ("test", "validation"))
told("lists", *test.candidates)
judged = test.judge(test.base_lists, ("ndcg@10", "subtopic_coverage@10", "ilad@10", "alpha_ndcg@10"))
told("figures", *judged.values())
for side in ("item", "user"):
    learner = CMB(diversity="subtopic_coverage", side=side, iterations=3, device="cpu")
    model = learner.fit(factors, split, data.categories)
    told(f"search, {side} side", model.factors_.user, model.factors_.item)
kept = within_budget(test, BudgetQuestion.of("sc", {"ndcg@10": 0.05}, trade_offs=(0.05, 0.16)))
told("budget", *test.rank(kept.rule))
told("live lists", *test.live().rank(kept.rule))
for form in ("dials", "user-vectors"):
    vectors = compiled_form(form).compile(test, kept.rule)
    told(f"budget, {form}", vectors.user, vectors.item)
fronts = frontier(validation, test, Goal.parse("sc"), budgets=(0.05,), rivals=("mmr",) if len(sys.argv) > 1 else ())
told("frontier", *[np.array([point.loss, point.gain]) for front in fronts for point in front.points])
print(json.dumps(found))
"""


def on(threads: int) -> dict[str, object]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    done = subprocess.run([sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, object] = json.loads(done.stdout)
    assert found.pop("threads") == threads
    return found


def test_one_thread_and_two_give_the_same_bits() -> None:
    one, two = on(1), on(2)
    assert [name for name in one if one[name] != two[name]] == []
    assert len(one) == 11
