"""Export of vectors with ids and versions. An export is valid only after its files were read back and ranked.

A folder holds one file per side, ``export.json`` (versions and origin) and ``expected.json`` (lists of some users, to
test an installation). User vectors belong with one version of the item vectors. Loading them with another version
raises an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.files import atomic_folder, readable, require_new_folder, write_text
from recprism.common.ids import as_id_array, id_positions
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.shares import Share, percent, share
from recprism.errors import InputError
from recprism.forms._export_formats import Side, decoded_vectors, format_named
from recprism.forms.compiled import Agreement, agreement_of
from recprism.forms.dials.solve import as_decoded, widen_margins
from recprism.forms.live import LiveFigures, live_figures
from recprism.models import Factors
from recprism.models.factors import COSINE, INNER_PRODUCT
from recprism.rule.rule import Rule

SCHEMA, VERSION = "recprism.export", 2
LISTED = 10
TRIED = 20  # users with a list in expected.json
CHECKED = 1000  # users who are ranked from the files to validate an export
UNIT = 1e-4  # tolerance of unit length for cosine


@dataclass(frozen=True)
class Export:
    """The manifest of an export.

    Attributes:
        format: Name of the file format.
        form: What the vectors are: "dials", "user-vectors", "boosts", or "vectors" for those of a model or of players.
        metric: The metric of the index.
        alpha: Share of the rule's trade-off; 0 is the trained model.
        dim: Number of columns.
        base_dim: Number of columns of the trained model.
        user_version: Version of the user vectors, from their contents.
        item_version: Version of the item vectors. If item vectors did not move, this is the base's version, and an
            existing index can stay.
        base_item_version: Version of the trained model's item vectors.
        users: File name of the user vectors.
        items: File name of the item vectors.
        run: Name of the run directory.
        made_from: Fingerprint of the run.
        margin: Margin by which the user vectors hold the lists; None if not requested.
        for_index: Name of the index whose decoded vectors are in the file of the items; None if not requested.
        result: Name of the result, if it has one.
        live: Figures of the live lists.
        items_moved: Whether item vectors are not those of the trained model.
        agreement: How many live lists equal those of the rule; None if the vectors are not compiled from one.
        constraints: What the lists of the run keep. Banned items have no vector in the files. Pins, shares and floors
            are not in the vectors: the program that serves them must apply these.
        certificate: What was certified about lists of this form, in plain values; None if nothing was.
        measured: Metric, loss, users and part of such lists where nothing was certified; None if it was not measured.
    """

    format: str
    form: str
    metric: str
    alpha: float
    dim: int
    base_dim: int
    user_version: str
    item_version: str
    base_item_version: str
    users: str
    items: str
    run: str
    made_from: str
    margin: float | None = None
    for_index: str | None = None
    result: str | None = None
    live: LiveFigures | None = None
    items_moved: bool = False
    agreement: Agreement | None = None
    constraints: dict[str, Any] = field(default_factory=dict)
    certificate: Mapping[str, Any] | None = None
    measured: Mapping[str, Any] | None = None

    def promise(self) -> str:
        """Return what is certified about the lists, or that nothing is."""
        if self.certificate is not None:
            return str(self.certificate["sentence"])
        if self.measured is None:
            return "Not certified."
        it = self.measured
        loss = f"measured loss {percent(it['loss'])} of {it['metric']}, {it['users']:,} users of the {it['part']} part"
        return f"Not certified ({loss}); name a --budget to certify lists of this form."

    @property
    def index_stays(self) -> bool:
        """Whether an index of the trained model can stay."""
        return self.for_index is not None or self.item_version == self.base_item_version

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "live": None if self.live is None else self.live.to_dict()}

    def sentences(self, folder: Path) -> list[str]:
        """Return the lines to print."""
        equal = () if self.agreement is None else (self.agreement.sentence(), self.promise())
        live = () if self.live is None else self.live.sentences()
        return [f"{self.users} and {self.items} -> {folder}", *equal, self._about_index(), *self._left_out(), *live]

    def _about_index(self) -> str:
        """Return what becomes of an index of the trained model."""
        moved = f"version {self.base_item_version} -> {self.item_version}"
        if self.for_index is not None:
            return f"User vectors are for {self.for_index}, which stays; the items' file holds what it decodes to."
        if self.index_stays:
            return f"Item vectors are those of the trained model (version {self.item_version}): an index stays."
        if not self.items_moved:
            banned = len(self.constraints["banned"])
            rows = f"Item vectors stay, without {banned:,} banned items ({moved})"
            return f"{rows}: delete these from your index, or build it again."
        if self.dim > self.base_dim:
            columns = f"Vectors have {self.dim} numbers, {self.dim - self.base_dim} of them for dials and boosts"
            return f"{columns} ({moved}): build the index again."
        rebuilt = "build the index again; graphs and codebooks of the old vectors do not fit"
        return f"Item vectors changed ({moved}): {rebuilt}."

    def _left_out(self) -> Iterator[str]:
        """Yield a sentence about the constraints that vectors cannot hold."""
        rest = self.constraints.keys() - {"banned", "per_user_diversity", "allow_violations"}
        if rest:
            names = ", ".join(sorted(rest))
            yield f"Vectors cannot hold {names}: apply the constraints in export.json when you serve."


def export_vectors(
    problem: Problem,
    factors: Factors,
    folder: str | Path,
    to: str = "safetensors",
    *,
    about: Mapping[str, Any],
    metric: str | None = None,
    margin: Share | None = None,
    for_index: str | Path | None = None,
    rule: Rule | None = None,
    objective: str | None = None,
    on_step: ProgressCallback | None = None,
) -> Export:
    """Write vectors, and check that the files reproduce their lists.

    Args:
        problem: The live context that the vectors are for.
        factors: The vectors.
        folder: The folder to write.
        to: Name of the file format: safetensors, npz, parquet, csv or faiss.
        about: Where the vectors come from: fields of :class:`Export`, among them ``form``, ``alpha``, ``run``,
            ``made_from`` and ``certificate``.
        metric: The metric of the index; by default the model's own.
        margin: Change the user vectors so that they hold the same lists by this margin, for an index that rounds (see
            :func:`recprism.forms.dials.solve.widen_margins`).
        for_index: A FAISS index: change the user vectors so that they hold the same lists with its decoded vectors.
        rule: What the vectors were compiled from; the lists are compared with its own.
        objective: The metric of the goal; None for the vectors of the trained model.
        on_step: Receives progress.

    Raises:
        InputError: If an argument is invalid, or if the files do not reproduce the lists.
    """
    chosen, folder = format_named(to), Path(folder)
    step = count_steps(on_step, "exporting", 4)
    margin = None if margin is None else share(margin, "margin")
    decoded = None if for_index is None else decoded_vectors(for_index)
    wanted = metric or factors.metric
    _require_metric(factors, wanted)
    require_new_folder(folder)
    base = problem.factors
    if margin is not None or decoded is not None:
        factors, _ = widen_margins(factors, LISTED, exclude=problem.hidden, margin=margin, decoded=decoded)
    step()
    shown = np.setdiff1d(np.arange(factors.n_items), problem.resolved.banned)
    whole, factors, seen = factors, factors.of_items(shown), problem.seen.of_cols(shown)
    user, item = factors.search_vectors
    versions = version_of(user, factors.user_ids), version_of(item, factors.item_ids)
    sides = (
        Side("user", user, factors.user_ids, versions[0], versions[1], wanted),
        Side("item", item, factors.item_ids, versions[1], versions[1], wanted),
    )
    with atomic_folder(folder) as temporary:
        users, items = (form.write(temporary, side) for form, side in zip(chosen, sides, strict=True))
        step()
        made = Export(
            format=to,
            **about,
            metric=wanted,
            user_version=versions[0],
            item_version=versions[1],
            dim=user.shape[1],
            base_dim=base.search_vectors[0].shape[1],
            base_item_version=version_of(base.search_vectors[1], base.item_ids),
            users=users.name,
            items=items.name,
            margin=margin,
            for_index=None if for_index is None else Path(for_index).name,
            live=_live(problem, whole, objective),
            items_moved=versions[1] != version_of(base.of_items(shown).search_vectors[1], factors.item_ids),
            agreement=None if rule is None else agreement_of(problem, rule, whole),
        )
        said = {"schema": SCHEMA, "version": VERSION, **asdict(made)}
        write_text(temporary / "expected.json", json.dumps(_expected(factors, seen), ensure_ascii=False))
        write_text(temporary / "export.json", json.dumps(said, indent=1))
        step()
        _require_same_lists(factors, load_export(temporary), seen, folder)
        step()
    return made


def require_exportable(
    factors: Factors, to: str, *, metric: str | None, margin: Share | None, for_index: str | Path | None
) -> None:
    """Refuse what :func:`export_vectors` refuses, before anything is written."""
    format_named(to)
    _require_metric(factors, metric or factors.metric)
    if margin is not None:
        share(margin, "margin")
    if for_index is not None:
        as_decoded(factors, decoded_vectors(for_index))


def load_export(folder: str | Path) -> Factors:
    """Read an export as factors.

    Raises:
        InputError: If the folder is not an export, or if the two files do not belong together.
    """
    folder = Path(folder)
    about = _manifest(folder)
    for_users, for_items = format_named(about.format)
    return pair(for_users.read(folder / about.users, "user"), for_items.read(folder / about.items, "item"))


def as_expected(vectors: Factors, entry: Mapping[str, Any], items: Sequence[Any]) -> bool:
    """Whether item ids from another system match an entry of ``expected.json``; ties may be in any order.

    Compiled vectors often give several items nearly the same score. The last digit then decides, and it differs between
    systems.
    """
    if len(set(items)) != len(items) or len(items) != len(entry["items"]):
        return False
    user = id_positions(as_id_array([entry["user"]], "user"), vectors.user_ids, "user")
    item = id_positions(as_id_array(list(items), "item"), vectors.item_ids, "item")
    wanted, scores = np.array(entry["scores"]), vectors.item[item] @ vectors.user[user[0]]
    return np.allclose(scores, wanted, rtol=0, atol=1e-6 + 1e-5 * float(np.abs(wanted).max(initial=0)))


def pair(user: Side, item: Side) -> Factors:
    """Combine two sides, after checking that they are unchanged and belong together."""
    for side in (user, item):
        found = version_of(side.vectors, side.ids)
        if found != side.version:
            raise InputError(
                f"the {side.name} vectors are not those that were exported as version {side.version}: they make "
                f"version {found}; export them again"
            )
    if user.belongs_with != item.version:
        raise InputError(
            f"user vectors of version {user.version} belong with item vectors of version {user.belongs_with}, and "
            f"these are {item.version}; install the two files of one export"
        )
    return Factors.from_arrays(
        user.vectors,
        item.vectors,
        user_ids=user.ids,
        item_ids=item.ids,
        settings={"model": "export", "metric": user.metric},
    )


def version_of(vectors: NDArray[np.float32], ids: NDArray[Any]) -> str:
    """Return twelve letters of a hash of vectors and ids."""
    digest = hashlib.sha256(np.ascontiguousarray(vectors, np.float32).tobytes())
    digest.update("\n".join(map(str, ids.tolist())).encode())
    return digest.hexdigest()[:12]


def _manifest(folder: Path) -> Export:
    path = folder / "export.json"
    if not path.exists():
        raise InputError(f"{folder}: no export (there is no {path.name}); write one with `recprism export`")
    with readable(path, "not the manifest of an export", "export again"):
        facts: Mapping[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    if facts.get("schema") != SCHEMA or facts.get("version") != VERSION:
        raise InputError(f"{path}: not an export of version {VERSION}; export again with this version of recprism")
    try:
        known = {name: value for name, value in facts.items() if name not in ("schema", "version", "live", "agreement")}
        live, equal = facts["live"], facts["agreement"]
        return Export(**known, live=LiveFigures(**live), agreement=Agreement(**equal) if equal else None)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not complete ({error}); export again") from None


def _require_metric(factors: Factors, wanted: str) -> None:
    """Require unit item vectors for cosine, which ignores their length."""
    if wanted not in (INNER_PRODUCT, COSINE):
        raise InputError(f"metric is {INNER_PRODUCT} or {COSINE}, not {wanted!r}")
    if wanted == INNER_PRODUCT:
        return
    length = np.linalg.norm(factors.search_vectors[1], axis=1)
    off = int((np.abs(length - 1) > UNIT).sum())
    if factors.metric != COSINE or off:
        raise InputError(
            f"these vectors were made for inner product: {off:,} of {len(length):,} item vectors are not of length 1, "
            "and an index by cosine would give other lists; make the run with `recprism train --metric cosine`"
        )


def _live(problem: Problem, factors: Factors, objective: str | None) -> LiveFigures:
    """Measure the lists that the files give when items that users have are left out and the constraints applied."""
    items = problem.rank(factors, LISTED)[0]
    return live_figures(problem, factors, np.arange(factors.n_users), items, objective)


def _expected(factors: Factors, seen: Any) -> dict[str, Any]:
    """Return lists with and without seen items; an index does not know which items were seen, so they are named."""
    rows = np.unique(np.linspace(0, factors.n_users - 1, min(TRIED, factors.n_users)).astype(np.int64))
    found = {}
    for name, exclude in (("without_seen", seen), ("everything", None)):
        items, scores = factors.rank(min(LISTED, factors.n_items), exclude=exclude, users=rows)
        found[name] = [
            {
                "user": factors.user_ids[row : row + 1].tolist()[0],
                "items": factors.item_ids[items[at][items[at] >= 0]].tolist(),
                "scores": [round(float(score), 6) for score in scores[at][items[at] >= 0]],
                **({} if exclude is None else {"seen": factors.item_ids[exclude.row(row)].tolist()}),
            }
            for at, row in enumerate(rows)
        ]
    return found


def _require_same_lists(factors: Factors, read: Factors, seen: Any, folder: Path) -> None:
    """Rank from the files and compare with the run's lists."""
    rows = np.arange(min(CHECKED, factors.n_users))
    wanted, found = (it.rank(LISTED, exclude=seen, users=rows)[0] for it in (factors, read))
    if not np.array_equal(wanted, found):
        share = float((wanted == found).mean())
        raise InputError(f"{folder}: the files give only {share:.1%} of the run's lists back; do not install them")
