"""A result in a run: ``result.json`` holds the rule, ``delta.safetensors`` its arrays, bound to the base vectors.

Changed vectors have their own files (``models.changed``): ``cmb.json`` instead of ``result.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recprism.budget.certificate import Certificate
from recprism.budget.problem import Problem
from recprism.budget.sticky import StickyProblem
from recprism.common.bound import hash_of, load_arrays, save_arrays
from recprism.common.files import readable, write_text
from recprism.common.version import __version__
from recprism.errors import InputError, RecprismError
from recprism.models.changed import ChangedVectors
from recprism.result.result import Result
from recprism.rule.constraints.violations import Violations
from recprism.rule.goal import Goal
from recprism.rule.rule import Rule

RESULT, CHANGE, BASE = "result.json", "delta.safetensors", "factors.safetensors"
CERTIFICATE = "certificate.json"
AGAIN = "run the command that made it again"


def write_result(found: Result, folder: Path, base_folder: Path) -> None:
    """Write a result that was found within a budget.

    Args:
        found: The result.
        folder: Where the result is kept.
        base_folder: Where the base vectors are kept.
    """
    rule, arrays = found.own_rule(), dict[str, Any]()
    about: dict[str, Any] = {"recprism": __version__, "goal": found.towards, "rule": rule.to_dict()}
    if rule.boosts is not None:
        arrays["boosts"] = rule.boosts
    if isinstance(found.problem, StickyProblem):
        arrays["held"] = np.ascontiguousarray(found.problem.held, np.int32)
        about["stickiness"] = found.problem.stickiness
    if (function := rule.goal.function) is not None:
        about["function"] = function.fingerprint
    text = json.dumps(about)
    write_text(folder / RESULT, text)
    bound = {RESULT: hash_of(text.encode()), BASE: hash_of(base_folder / BASE)}
    save_arrays(folder / CHANGE, arrays, **bound)


def read_result(folder: Path, base_folder: Path, problem: Problem, certified: Mapping[str, Any] | None) -> Result:
    """Read a result that was found within a budget or by players.

    Args:
        folder: Where the result is kept.
        base_folder: Where the base vectors are kept.
        problem: The judged context.
        certified: What the certificate's file says; None without a certificate.
    """
    if not (folder / RESULT).exists():
        return Result.of_vectors(problem, ChangedVectors.load(folder, base_folder=base_folder))
    from safetensors import SafetensorError

    try:
        arrays = load_arrays(folder / CHANGE, AGAIN, folder / RESULT, base_folder / BASE)
        about = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        rule = Rule.from_dict({**about["rule"], "boosts": arrays.get("boosts")})
        goal, problem = Goal.parse(str(about["goal"])), problem.with_window(rule.history_window)
        if rule.goal.function is not None:
            rule.goal.function.require(about.get("function"))
        if "stickiness" in about:
            problem = StickyProblem(problem, arrays["held"].astype(np.int64), float(about["stickiness"]))
    except (RecprismError, PermissionError):
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as broken:
        raise InputError(f"{folder}: not a result written by recprism ({broken})") from None
    if certified is None:
        return Result(problem, goal, rule)
    said = certified.get("violations") if problem.part == "test" else None  # of the lists that this part judges
    with readable(folder / CERTIFICATE, "damaged", "put it back, or make the result again with --overwrite"):
        return Result(
            problem,
            goal,
            rule,
            Certificate.from_dict(certified["certificate"]),
            None if said is None else Violations.from_dict(said),
            certified.get("constraint_costs", {}),
            asked_before=certified.get("asked_before"),
        )
