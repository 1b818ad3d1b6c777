"""Dials as arrays and plain values, for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.concepts import Concepts
from recprism.dials.named import Dials
from recprism.dials.rest import Rest
from recprism.dials.result import Pairs

ARRAYS = ("weights", "score_range", "users", "lists", "base_lists", "given", "feasible")
PLAIN = ("same_concept_pairs", "ordered", "scales", "margin", "rounding")


def to_arrays(dials: Dials) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return everything but the ids of the users: arrays by name, and values that JSON can hold."""
    arrays = {name: getattr(dials, name) for name in ARRAYS}
    arrays |= {f"proof.{it.name}": getattr(dials.proof, it.name) for it in fields(Pairs)}
    arrays["concepts"] = dials.concepts.values
    if dials.rest is not None:
        arrays |= {f"rest.{it.name}": getattr(dials.rest, it.name) for it in fields(Rest)}
    about = {name: getattr(dials, name) for name in PLAIN}
    return arrays, {**about, "names": list(dials.names), "kinds": list(dials.concepts.kinds)}


def from_arrays(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any], user_ids: NDArray[Any]) -> Dials:
    """Read what :func:`to_arrays` returned.

    Args:
        arrays: Arrays by name.
        about: Plain values.
        user_ids: Ids of the users, (n_users,).
    """
    concepts = Concepts(tuple(about["names"]), np.asarray(arrays["concepts"]), tuple(about["kinds"]))
    proof = Pairs(**{it.name: np.asarray(arrays[f"proof.{it.name}"]) for it in fields(Pairs)})
    rest = None
    if "rest.users" in arrays:
        rest = Rest(**{it.name: np.asarray(arrays[f"rest.{it.name}"]) for it in fields(Rest)})
    plain = {name: about[name] for name in PLAIN} | {"scales": tuple(about["scales"])}
    named: dict[str, Any] = {name: np.asarray(arrays[name]) for name in ARRAYS}
    return Dials(concepts=concepts, user_ids=user_ids, proof=proof, rest=rest, **named, **plain)
