"""Vectors that a search changed, in a folder: delta.safetensors, cmb.json (how they were found), and the base factors.

The base factors may be in another folder, which several changes of them share. The change records the hashes of the
other two files (see ``common.bound``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from recprism.common.bound import hash_of, load_arrays, save_arrays
from recprism.common.files import write_text
from recprism.errors import InputError
from recprism.models.factors import Factors
from recprism.models.perturbation import Perturbation


def goal_of(settings: Mapping[str, Any]) -> str:
    """Return what a search counts as diversity; several metrics are joined by +."""
    named = settings["diversity"]
    return "+".join(named) if isinstance(named, Mapping) else str(named)


@dataclass(frozen=True, eq=False)
class ChangedVectors:
    """The vectors of a model, and a change of them that a search found.

    Attributes:
        base: The vectors before the change.
        change: In the units of the base vectors.
        settings: Those of the search, in JSON values.
        history: Every iteration, in JSON values.
        converged: Whether patience ended the search.
    """

    base: Factors
    change: Perturbation
    settings: Mapping[str, Any]
    history: tuple[Mapping[str, Any], ...]
    converged: bool

    @cached_property
    def factors(self) -> Factors:
        """The changed vectors."""
        return self.change.applied_to(self.base)

    @property
    def goal(self) -> str:
        """What the search was rewarded for."""
        return goal_of(self.settings)

    def save(
        self, folder: Path, *, made_from: Mapping[str, str] | None = None, base_folder: Path | None = None
    ) -> None:
        """Write the change and the base vectors.

        Args:
            folder: Where to write.
            made_from: Hashes of other files that the base factors belong with.
            base_folder: Where to write the base factors, if not into the same folder.
        """
        base_file = (base_folder or folder) / "factors.safetensors"
        sides = {"item": self.change.item, "user": self.change.user}
        arrays = {name: side.cpu().numpy() for name, side in sides.items() if side is not None}
        text = json.dumps({"settings": self.settings, "history": self.history, "converged": self.converged})
        self.base.save(base_file, made_from=made_from)
        write_text(folder / "cmb.json", text)
        bound = {"cmb.json": hash_of(text.encode()), base_file.name: hash_of(base_file)}
        save_arrays(folder / "delta.safetensors", arrays, **bound)

    @classmethod
    def load(cls, folder: Path, *, base_folder: Path | None = None) -> ChangedVectors:
        """Read what ``save`` wrote; arguments as there."""
        from safetensors import SafetensorError

        delta, base_file = folder / "delta.safetensors", (base_folder or folder) / "factors.safetensors"
        again = "run `recprism search` again with --overwrite"
        try:
            arrays = load_arrays(delta, again, folder / "cmb.json", base_file)
            about = json.loads((folder / "cmb.json").read_text(encoding="utf-8"))
            change = Perturbation(**{name: torch.from_numpy(array) for name, array in arrays.items()})
            facts = about["settings"], tuple(about["history"]), bool(about["converged"])
        except FileNotFoundError as missing:
            raise InputError(
                f"{missing.filename or folder}: no such file; a saved CMB has cmb.json and delta.safetensors"
            ) from None
        except InputError:
            raise
        except (SafetensorError, ValueError, KeyError, TypeError) as broken:
            raise InputError(f"{folder}: not a CMB written by recprism ({broken})") from None
        return cls(Factors.load(base_file), change, *facts)
