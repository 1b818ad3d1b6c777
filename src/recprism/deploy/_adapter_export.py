"""The query adapter of a run: learned from the lists that the run serves, evaluated on held-out users.

It serves user vectors that exist only at request time: it maps p to p + f(p), and the index does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recprism._extras import needing
from recprism.budget.audit import COST
from recprism.budget.scenario import Ranker, Scenario
from recprism.data._files import atomic_path
from recprism.data.progress import ProgressCallback, count_steps
from recprism.dials.query_adapter import QueryAdapter, QueryAdapterSettings
from recprism.errors import InputError
from recprism.explain.factors._held_out import divided_users
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of

OPSET = 18  # the first one in which ReduceL2 takes its axes as an input
HELD_OUT = 0.2
SETTINGS = QueryAdapterSettings(ridge=1e-3)
"""A weak penalty on size: docs/design/carry.md lists the alternatives."""


@dataclass(frozen=True)
class AdapterEffect:
    """The effect of an adapter on held-out users, as changes relative to the trained model.

    Attributes:
        objective: The run's objective.
        users: Number of held-out users.
        gain: Relative gain in the objective under the adapter; None if it cannot be measured.
        loss: Relative loss of NDCG@10 under the adapter; None without labels.
        own_gain: Relative gain in the objective under the users' own vectors.
    """

    objective: str
    users: int
    gain: float | None
    loss: float | None
    own_gain: float | None

    def sentence(self) -> str:
        """Describe the effect."""
        if self.gain is None or not self.own_gain:
            return "The effect on users that the adapter did not learn from is not known: there is no gain to share."
        share = self.gain / self.own_gain
        cost = "not known" if self.loss is None else f"{-100 * self.loss:+.1f} %"
        return (
            f"For {self.users:,} users that the adapter did not learn from: {self.objective} {100 * self.gain:+.1f} %, "
            f"{100 * share:.0f} % of what vectors of their own gain; {COST} {cost}."
        )


def learn_adapter(
    run: Run, *, hidden: int = 0, seed: int = 0, on_step: ProgressCallback | None = None
) -> tuple[QueryAdapter, AdapterEffect]:
    """Learn an adapter from four fifths of the users and evaluate it on the others.

    Args:
        run: A run with changed user vectors.
        hidden: Hidden units; 0 for a linear map.
        seed: Determines the held-out users and the start of the training.
        on_step: Receives progress.

    Returns:
        The evaluated adapter, and its effect on held-out users.

    Raises:
        InputError: If the run was not diversified, or if item vectors changed.
    """
    if not run.is_diversified():
        raise InputError(
            f"{run.path}: has no change to learn from; run `recprism diversify {run.argument} --budget 0.01`"
        )
    found = run.diversified()
    if found.change.item is not None:
        raise InputError(
            f"{run.path}: changed item vectors, so that new users need no adapter: they search the new index; "
            "export the vectors"
        )
    step = count_steps(on_step, "learning the adapter", 2)
    scenario = scenario_of(run)
    known, others = divided_users(scenario.split.n_users, HELD_OUT, seed)
    served = scenario.rank(found.model)[0]
    settings = QueryAdapterSettings(**{**vars(SETTINGS), "hidden": hidden, "seed": seed})
    adapter = QueryAdapter(settings).fit_lists(
        found.base, served[known], users=known, exclude=scenario.hidden.take_rows(known)
    )
    step()
    effect = _measured(scenario, found.model, adapter, found.objective, others)
    step()
    return adapter, effect


def _measured(scenario: Scenario, own: Ranker, adapter: QueryAdapter, objective: str, users: Any) -> AdapterEffect:
    labelled = len(scenario.split.part(scenario.part)) > 0
    names = (objective, COST) if labelled else (objective,)
    means = []
    for model in (scenario.factors, adapter.applied_to(scenario.factors), own):
        values = scenario.judge(scenario.rank(model)[0], names)
        means.append({name: float(np.nanmean(it[users] if len(it) > 1 else it)) for name, it in values.items()})

    def change(at: int, name: str) -> float | None:
        before = means[0].get(name)
        return means[at][name] / before - 1 if before else None

    loss = change(1, COST) if labelled else None
    return AdapterEffect(
        objective, len(users), change(1, objective), None if loss is None else -loss, change(2, objective)
    )


def write_onnx(adapter: QueryAdapter, path: str | Path) -> None:
    """Write the map as an ONNX graph with input ``user`` (n, d) float32 and output ``query`` (n, d)."""
    with needing("an ONNX graph", "export"):
        from onnx import TensorProto, checker, helper, numpy_helper, save_model
    if adapter.weights is None:
        raise InputError("this adapter has learned nothing yet; there is nothing to write")
    d = len(adapter.weights["offset"])
    constants = {
        **adapter.weights,
        "strength": np.array([adapter.settings.strength], np.float32),
        "axis": np.array([1], np.int64),
        "tiny": np.array([np.finfo(np.float32).tiny], np.float32),
    }
    steps: list[tuple[str, tuple[str, ...], str]] = [
        ("ReduceL2", ("user", "axis"), "length_of_each"),
        ("Max", ("length_of_each", "tiny"), "length"),
        ("Div", ("user", "length"), "unit"),
        ("MatMul", ("unit", "linear"), "turned"),
        ("Add", ("turned", "offset"), "straight"),
    ]
    change = "straight"
    if "out" in adapter.weights:
        steps += [
            ("MatMul", ("unit", "into"), "entered"),
            ("Add", ("entered", "shift"), "shifted"),
            ("Tanh", ("shifted",), "bent"),
            ("MatMul", ("bent", "out"), "back"),
            ("Add", ("straight", "back"), "both"),
        ]
        change = "both"
    steps += [
        ("Mul", (change, "length_of_each"), "sized"),
        ("Mul", ("sized", "strength"), "added"),
        ("Add", ("user", "added"), "query"),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, list(inputs), [output]) for kind, inputs, output in steps],
        "recprism query adapter",
        [helper.make_tensor_value_info("user", TensorProto.FLOAT, ["n", d])],
        [helper.make_tensor_value_info("query", TensorProto.FLOAT, ["n", d])],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    checker.check_model(made)
    with atomic_path(path) as temporary:
        save_model(made, str(temporary))
