"""Another processor: the same work by other instructions, within the tolerance that docs/reliability.md names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow
WORK = """
import sys
import numpy as np
import torch
from recprism.data import load_dataset
from recprism.models import BPRMF, LightGCN
from recprism.budget.problem import Problem
from recprism.budget.path import lists_at

data = load_dataset("ml-latest-small")
split, found = data.split(seed=0), {"instructions": torch.backends.cpu.get_cpu_capability()}
for model in (BPRMF(dim=16, epochs=6), LightGCN(dim=16, epochs=2)):
    factors = model.fit(split, seed=0, device="cpu")
    test = Problem(factors, split, data.categories, "test")
    judged = test.judge(test.base_lists, ("ndcg@10", "subtopic_coverage@10", "ilad@10", "alpha_ndcg@10"))
    found[f"{model.name} vectors"] = np.vstack([factors.user, factors.item])
    found[f"{model.name} lists"] = test.base_lists
    found[f"{model.name} optimal lists"] = lists_at(test, "subtopic_coverage", 0.2)
    found[f"{model.name} figures"] = np.array([np.nanmean(values) for values in judged.values()])
np.savez(sys.argv[1], **found)
"""
PLAIN = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}


def test_another_set_of_instructions_gives_nearly_the_same(tmp_path: Path) -> None:
    found = []
    for name, instructions in (("usual", {}), ("plain", PLAIN)):
        file, environment = tmp_path / f"{name}.npz", {**os.environ, **instructions}
        command = [sys.executable, "-c", WORK, str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(dict(np.load(file)))
    usual, plain = found
    if usual.pop("instructions") == plain.pop("instructions"):
        pytest.skip("this processor, or this build of torch, has one set of instructions only: nothing to compare")
    for name, ours in usual.items():
        theirs = plain[name]
        if name.endswith("vectors"):
            assert np.linalg.norm(ours - theirs) < 1e-3 * np.linalg.norm(ours), "signs of axes do not flip"
        elif name.endswith("lists"):
            assert np.mean([len(np.setdiff1d(*rows)) for rows in zip(ours, theirs, strict=True)]) < 0.1, "of ten items"
        else:
            np.testing.assert_allclose(theirs, ours, rtol=1e-3)
