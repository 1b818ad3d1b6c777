"""A result in a run: ``delta.safetensors`` and ``result.json``, bound by hashes to the base vectors.

The players' search keeps its own files (:meth:`recprism.cmb.CMB.save`): ``cmb.json`` instead of ``result.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recprism._version import __version__
from recprism.budget.certificate import Certificate
from recprism.budget.diversified import Diversified
from recprism.cmb import CMB
from recprism.data._bound import CONTENTS, contents_of, hash_of, note, noted_in_tensors, require_bound, require_contents
from recprism.data._files import atomic_path, write_text
from recprism.dials._stored import from_arrays, to_arrays
from recprism.errors import InputError, RecprismError
from recprism.models import Factors, Perturbation
from recprism.rerank.rule import Rule

RESULT, CHANGE, BASE = "result.json", "delta.safetensors", "factors.safetensors"
AGAIN = "run the command that made it again"


def write_result(found: Diversified, folder: Path, base_folder: Path, made_from: Mapping[str, str]) -> None:
    """Write a change that was found within a budget.

    Args:
        found: The result.
        folder: Where the result is kept.
        base_folder: Where the base vectors are kept.
        made_from: Hashes of the files that the base vectors belong with.
    """
    from safetensors.numpy import save_file

    sides = {"item": found.change.item, "user": found.change.user}
    arrays = {name: np.ascontiguousarray(side.cpu().numpy()) for name, side in sides.items() if side is not None}
    rule = None if found.rule is None else found.rule.to_dict()
    about = {"goal": found.goal, "into": found.into, "rule": rule, "dials": None}
    if found.rule is not None and found.rule.lifts is not None:
        arrays["lifts"] = found.rule.lifts
    if found.dials is not None:
        weights, about["dials"] = to_arrays(found.dials)
        arrays |= {f"dials.{name}": np.ascontiguousarray(array) for name, array in weights.items()}
    text = json.dumps({**about, "provenance": {"recprism": __version__, **found.provenance}})
    found.base.save(base_folder / BASE, made_from=made_from)
    write_text(folder / RESULT, text)
    bound = {CONTENTS: contents_of(arrays), RESULT: hash_of(text.encode()), BASE: hash_of(base_folder / BASE)}
    with atomic_path(folder / CHANGE) as temporary:
        save_file(arrays, temporary, note(**bound))


def read_result(folder: Path, base_folder: Path, certified: Mapping[str, Any] | None) -> Diversified:
    """Read a result that was found within a budget or by players.

    Args:
        folder: Where the result is kept.
        base_folder: Where the base vectors are kept.
        certified: What the certificate's file says; None without a certificate.
    """
    if not (folder / RESULT).exists():
        return Diversified.of_search(CMB.load(folder, base_folder=base_folder))
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    files = (folder / RESULT, base_folder / BASE)
    noted = noted_in_tensors(folder / CHANGE)
    require_bound(folder / CHANGE, noted, {file.name: hash_of(file) for file in files}, AGAIN)
    try:
        about = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        arrays = load_file(folder / CHANGE)
        require_contents(folder / CHANGE, arrays, noted, AGAIN)
        sides = {name: torch.from_numpy(array) for name, array in arrays.items() if name in ("item", "user")}
        weights = {name.removeprefix("dials."): array for name, array in arrays.items() if name.startswith("dials.")}
        rule = None if about["rule"] is None else Rule.from_dict({**about["rule"], "lifts": arrays.get("lifts")})
        facts = (str(about["goal"]), str(about["into"]), rule)
        provenance = dict(about["provenance"])
    except RecprismError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as broken:
        raise InputError(f"{folder}: not a result written by recprism ({broken})") from None
    certificate = None if certified is None else Certificate.from_dict(certified["certificate"])
    base = Factors.load(base_folder / BASE)
    dials = None if about["dials"] is None else from_arrays(weights, about["dials"], base.user_ids)
    return Diversified(base, *facts, dials, Perturbation(**sides), certificate=certificate, provenance=provenance)
