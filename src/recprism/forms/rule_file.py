"""The file of a rule for request time: prices, properties of the items, and optional vectors and boosts, in plain
numpy.

A folder holds ``rule.json`` (the rule in plain values) and ``rule.npz`` (arrays without pickle).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.budget.promise import Promise, fallen_back
from recprism.common.bound import contents_of, hash_of
from recprism.common.files import atomic_folder, readable, require_new_folder, write_text
from recprism.errors import InputError
from recprism.forms._own_items import own_items
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.rule.kernels.prices import function_in

SCHEMA, VERSION = "recprism.rule", 2
FACTS, ARRAYS = "rule.json", "rule.npz"


@dataclass(frozen=True, eq=False, repr=False)
class RuleFile:
    """Everything that makes lists at request time.

    Attributes:
        goals: Weights of the goals that the search looks at, by name; empty if boosts alone make the lists.
        units: Value of one unit of each goal in terms of its metric.
        trade_off: From 0, relevance alone, to 1, diversity alone.
        history_weight: Weight of the categories of the user's history.
        k: Length of a list.
        candidates: How many of the best candidates the rule chooses from.
        constraints: Bans, pins and shares, with ids and names.
        item_ids: (n_items,) int64 or text.
        names: Names of the categories.
        indptr: The categories of item i are indices[indptr[i]:indptr[i + 1]], (n_items + 1,) int64.
        indices: (n_entries,) int32.
        shares: Share of the item that each entry has, (n_entries,) float64; those of an item add up to 1.
        unit: Unit vectors whose distances count, (n_items, d) float64 or float32; (1, 1) if no goal looks at distances.
        known: Whether a unit vector is not zero, (n_items,) bool.
        limits: NDCG with a cut -> the largest loss that a list may allow; a list that could lose more is the base list.
        boosts: What is added to the score of each item, (n_items,) float64; None without goals of exposure.
        item_vectors: (n_items, d) float32; None if scores come from elsewhere.
        history_window: How many of the user's latest interactions count as history; None counts all of them.
        history_users: Ids of the users whose histories are stored, (n_users,); None without histories.
        history_indptr: The history of user u is history_items[history_indptr[u]:history_indptr[u + 1]], (n_users + 1,).
        history_items: Item numbers, (n_entries,) int32; with a window, the oldest of each user first.
        histories_of: When the histories were stored: seconds since 1970; None without histories.
        fields: Names of fields, such as the author, whose values constraints may limit.
        field_indptr: The values of field f of item i are field_indices[field_indptr[i * n_fields + f]:...], (n_items *
            n_fields + 1,) int64; None without fields.
        field_indices: Numbers of values, (n_entries,) int32.
        certificate: What was certified about the rule; None if nothing was.
        about: Where the file comes from: run, result, fingerprint and version.
    """

    goals: Mapping[str, float]
    units: Mapping[str, float]
    trade_off: float
    history_weight: float
    k: int
    candidates: int
    constraints: Mapping[str, Any]
    item_ids: NDArray[Any]
    names: tuple[str, ...]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    shares: NDArray[np.float64]
    unit: NDArray[np.float64]
    known: NDArray[np.bool_]
    limits: Mapping[str, float] = field(default_factory=dict)
    boosts: NDArray[np.float64] | None = None
    item_vectors: NDArray[np.float32] | None = None
    history_window: int | None = None
    history_users: NDArray[Any] | None = None
    history_indptr: NDArray[np.int64] | None = None
    history_items: NDArray[np.int32] | None = None
    histories_of: float | None = None
    fields: tuple[str, ...] = ()
    field_indptr: NDArray[np.int64] | None = None
    field_indices: NDArray[np.int32] | None = None
    certificate: Promise | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        ids: Any,
        *,
        categories: Any = None,
        embeddings: ArrayLike | None = None,
        goal: str | Mapping[str, float] | None = None,
        trade_off: float | str = 0.2,
        k: int = 10,
        constraints: Constraints | Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> RuleFile:
        """Make a rule from settings, for items with categories or embeddings; nothing is learned or certified.

        Args:
            ids: Ids of the items, (n_items,).
            categories: For each item a name, several names, or None; or a matrix, (n_items, n_categories), whose values
                other than 0 say that the item has the category.
            embeddings: Vectors of the items, (n_items, d); only directions count. Cosines are as exact as the type.
            goal: "subtopic_coverage" (more categories), "ilad_subtopics" (distance by categories), "ilad" (distance by
                embeddings), several joined by "+", or weights by name. By default what the items have: more categories,
                distance by embeddings, or both.
            trade_off: From 0, relevance alone, to 1, diversity alone. Relevance counts as a share of what the best
                scores would give, categories as a share of those that a list can have, distance as the mean of all
                pairs.
            k: Length of a list.
            constraints: What lists must keep, as in :class:`recprism.rule.Constraints`.
            fields: Field -> for each item a value, several values, or None, such as the author. ``max_items`` and
                ``spacing`` look at them.

        Raises:
            InputError: If an argument is invalid, or there are neither categories nor embeddings.
        """
        return cls(**own_items(ids, categories, embeddings, goal, trade_off, k, constraints, fields))

    def write(self, folder: str | Path) -> None:
        """Write the folder.

        Raises:
            InputError: If it exists.
        """
        require_new_folder(Path(folder))
        facts = {name: _plain(getattr(self, name)) for name in _FACTS}
        facts["certificate"] = None if self.certificate is None else self.certificate.to_dict()
        arrays = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        for name in ("item_ids", "history_users"):
            if name in arrays and arrays[name].dtype.kind == "O":
                arrays[name] = arrays[name].astype(np.str_)
        with atomic_folder(Path(folder)) as temporary:
            np.savez(temporary / ARRAYS, **arrays)
            said = {"schema": SCHEMA, "version": VERSION, "arrays": hash_of(temporary / ARRAYS), **facts}
            write_text(temporary / FACTS, json.dumps(said, indent=1, ensure_ascii=False))

    @classmethod
    def read(cls, folder: str | Path) -> RuleFile:
        """Read what :meth:`write` wrote.

        Raises:
            InputError: If the folder is missing, damaged, or of another kind or version.
        """
        folder = Path(folder)
        if not (folder / FACTS).is_file():
            raise InputError(f"{folder} is no export of a rule; write one with `recprism export RUN`")
        with readable(folder / FACTS, "damaged", "export the rule again"):
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            version = facts.pop("schema"), facts.pop("version")
            if version != (SCHEMA, VERSION):
                raise InputError(
                    f"{folder}: format {version[1]} of an exported rule, and this version of recprism reads "
                    f"{VERSION} (0.2 wrote 1); export the rule again with `recprism export RUN`"
                )
            facts["names"], written = tuple(facts["names"]), facts.pop("arrays", None)
            facts["fields"] = tuple(facts.get("fields", ()))
        with readable(folder / ARRAYS, "damaged", "export the rule again"):
            if hash_of(folder / ARRAYS) != written:
                raise InputError(f"{folder}: {ARRAYS} is damaged, or of another export than {FACTS}; export it again")
            with np.load(folder / ARRAYS, allow_pickle=False) as stored:
                arrays: dict[str, Any] = {name: np.ascontiguousarray(stored[name]) for name in stored.files}
            certificate = facts.pop("certificate")
            found = cls(**facts, **arrays, certificate=None if certificate is None else Promise.from_dict(certificate))
        if (function := function_in(found.goals)) is not None:
            function.require(found.about.get("function"))
        if not found.fits_together():
            raise InputError(f"{folder}: its arrays do not fit together; export the rule again")
        if found.certificate is not None and found.certificate.tested != found.tested():
            raise InputError(f"{folder}: the rule was changed after it was certified; export it again")
        return found

    def tested(self) -> str:
        """Return a hash of everything that a certificate of the rule depends on."""
        facts = {name: _plain(getattr(self, name)) for name in _TESTED}
        arrays = {name: getattr(self, name) for name in _TESTED_ARRAYS if getattr(self, name) is not None}
        for name, array in arrays.items():
            if array.dtype.kind in "OU":  # the same ids, however wide their type is
                arrays[name] = np.frombuffer("\0".join(map(str, array.tolist())).encode(), np.uint8)
        words = json.dumps(facts, sort_keys=True, ensure_ascii=False)
        return hash_of(f"{words} {contents_of(arrays)}".encode())

    def item_fields(self) -> dict[str, list[tuple[int, ...]]]:
        """Return field -> the values of each item, as numbers; "category" is one, if there are categories."""
        found = {CATEGORY: _rows_of(self.indptr, self.indices)} if self.names else {}
        if self.field_indptr is not None and self.field_indices is not None:
            rows = _rows_of(self.field_indptr, self.field_indices)
            found |= {name: rows[at :: len(self.fields)] for at, name in enumerate(self.fields)}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, without the arrays."""
        return {
            "goals": dict(self.goals),
            "trade_off": self.trade_off,
            "k": self.k,
            "candidates": self.candidates,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "histories": None if self.history_users is None else len(self.history_users),
            "n_items": len(self.item_ids),
            "vectors": self.item_vectors is not None,
        }

    def __repr__(self) -> str:
        goals = "+".join(self.goals) or "boosts"
        return f"RuleFile({goals}, trade_off={self.trade_off:g}, k={self.k}, {self._size()})"

    def _size(self) -> str:
        return f"{len(self.item_ids):,} items, {len(self.names)} categories"

    def sentences(self, folder: Path) -> list[str]:
        """Return the lines to print."""
        load = f"recprism.serving.load_rule({str(folder)!r})"
        said = [f"rule.json and rule.npz -> {folder}", f"The rule for {self._size()}: {load}."]
        said.append("Nothing is certified about it." if self.certificate is None else self.certificate.sentence())
        fallen = fallen_back(self.about["fallback_share"], "live")
        if fallen is not None:
            said.append(fallen)
        if self.history_users is not None:
            said.append(
                f"It holds the histories of {len(self.history_users):,} users, which are personal data: store it, and "
                "delete it, under the rules for such data."
            )
        elif self.history_weight:
            said.append("The rule weighs the user's history: every request gives it, as history=[...].")
        return said

    def fits_together(self) -> bool:
        """Return whether the arrays have the right sizes and values; kernels read them without a check."""
        n, entries = len(self.item_ids), len(self.indices)
        return (
            n > 0
            and _divides(self.indptr, n, entries)
            and self.shares.shape == (entries,)
            and len(self.unit) in (1, n)
            and (not entries or 0 <= int(self.indices.min()) <= int(self.indices.max()) < len(self.names))
            and all(it is None or len(it) == n for it in (self.boosts, self.item_vectors))
            and self._histories_fit(n)
            and self._fields_fit(n)
        )

    def _fields_fit(self, n_items: int) -> bool:
        indptr, indices = self.field_indptr, self.field_indices
        if indptr is None or indices is None:
            return indptr is None and indices is None and not self.fields
        return _divides(indptr, n_items * len(self.fields), len(indices))

    def _histories_fit(self, n_items: int) -> bool:
        users, indptr, items = self.history_users, self.history_indptr, self.history_items
        if users is None or indptr is None or items is None:
            return users is None and indptr is None and items is None and self.histories_of is None
        return (
            self.histories_of is not None
            and _divides(indptr, len(users), len(items))
            and (not len(items) or 0 <= int(items.min()) <= int(items.max()) < n_items)
        )


def _divides(indptr: NDArray[np.int64], rows: int, entries: int) -> bool:
    """Whether ``indptr`` divides so many entries into so many rows."""
    ends_fit = indptr.shape == (rows + 1,) and (int(indptr[0]), int(indptr[-1])) == (0, entries)
    return ends_fit and bool((np.diff(indptr) >= 0).all())


def _rows_of(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> list[tuple[int, ...]]:
    ends, values = indptr.tolist(), indices.tolist()
    return [tuple(values[first:last]) for first, last in pairwise(ends)]


def fingerprint_of(folder: str | Path) -> str:
    """Return sixteen letters that name an export: the hash of its facts, one of which is the hash of its arrays."""
    return hash_of(Path(folder) / FACTS)


_TESTED: tuple[str, ...] = ("goals", "units", "trade_off", "history_weight", "history_window", "k", "candidates")
_TESTED += ("limits", "constraints", "names")
_FACTS = (*_TESTED, "histories_of", "fields", "about")
_TESTED_ARRAYS: tuple[str, ...] = ("item_ids", "indptr", "indices", "shares", "unit", "known", "boosts")
_TESTED_ARRAYS += ("field_indptr", "field_indices")
_ARRAYS: tuple[str, ...] = (*_TESTED_ARRAYS, "item_vectors", "history_users", "history_indptr", "history_items")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
