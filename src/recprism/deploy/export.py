"""Export of vectors with ids and versions. An export is valid only after its files were read back and ranked.

A folder holds one file per side, ``export.json`` (versions and origin) and ``expected.json`` (lists of some users, to
test an installation). User vectors belong with one version of the item vectors. Loading them with another version
raises an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from recprism.budget.diversified import RULE, as_into, serve
from recprism.budget.scenario import Scenario
from recprism.data._files import atomic_folder, readable, require_new_folder, write_text
from recprism.data._ids import as_id_array, id_positions
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import Share, share
from recprism.deploy._budget import budget_of
from recprism.deploy._export_formats import Side, decoded_vectors, format_named
from recprism.deploy.live import LiveFigures, live_figures, live_model
from recprism.dials.solve import as_decoded, widen_margins
from recprism.errors import InputError
from recprism.models import COSINE, INNER_PRODUCT, Factors
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of

ExportedPart = Literal["live", "test"]
SCHEMA, VERSION = "recprism.export", 1
LISTED = 10
TRIED = 20  # users with a list in expected.json
CHECKED = 1000  # users who are ranked from the files to validate an export
UNIT = 1e-4  # tolerance of unit length for cosine


@dataclass(frozen=True)
class Export:
    """The manifest of an export.

    Attributes:
        format: Name of the file format.
        metric: The metric of the index.
        alpha: 1 for the run's own vectors, 0 for the trained model's.
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
        part: "live" for live lists, "test" for the lists that were evaluated.
        result: Name of the result, if it has one.
        live: Figures of the live lists; None for "test".
        items_moved: Whether item vectors are not those of the trained model.
        constraints: What the lists of the run keep. Banned items have no vector in the files. Pins, shares and floors
            are not in the vectors: the program that serves them must apply these.

    Stability: provisional.
    """

    format: str
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
    part: str = "test"
    result: str | None = None
    live: LiveFigures | None = None
    items_moved: bool = False
    constraints: dict[str, Any] = field(default_factory=dict)

    @property
    def index_stays(self) -> bool:
        """Whether an index of the trained model can stay."""
        return self.for_index is not None or self.item_version == self.base_item_version


def vectors_at(run: Run, alpha: Share, part: ExportedPart = "live") -> Factors:
    """Return the vectors of a run at a share of its trade-off. They are solved again: scaled vectors lose the lists.

    A rule is compiled into dials, which hold most of its lists.

    Args:
        run: Trained, and perhaps diversified.
        alpha: The share of the trade-off; 0 gives the trained model.
        part: "live" for vectors of live lists, "test" for the vectors that were evaluated.

    Raises:
        InputError: If players found the change, and ``alpha`` is neither 0 nor 1: there is no path to solve again.

    Stability: provisional.
    """
    alpha = share(alpha, "alpha")
    if alpha == 0 or not run.is_diversified():
        return run.factors()
    found = run.diversified()
    if alpha == 1 and found.into != RULE:
        model = live_model(run) if part == "live" else found.model
        assert isinstance(model, Factors)  # a run has vectors, and so has any form but the rule
        return model
    if found.rule is None:
        raise InputError(f"{run.path}: players found this change, and there is no smaller one; --alpha is 0 or 1 here")
    if (run.certificate() or {}).get("retrained", {}).get("stickiness"):
        raise InputError(f"{run.path}: its lists keep items of an older run; --alpha is 0 or 1 here")
    asked, form = budget_of(run), as_into("dials" if found.into == RULE else found.into)
    scenario = scenario_of(run, live=part == "live")
    how = {} if asked is None else {"ordered": asked.ordered, "rest": asked.rest}
    return found.served_by(serve(scenario, found.goal, alpha * found.trade_off, form, **how)).factors


def export_run(
    run: Run,
    folder: str | Path,
    to: str = "safetensors",
    *,
    metric: str | None = None,
    alpha: Share = 1.0,
    margin: Share | None = None,
    for_index: str | Path | None = None,
    part: ExportedPart = "live",
    on_step: ProgressCallback | None = None,
) -> Export:
    """Write the vectors that a run serves, and check that the files reproduce the run's lists.

    Args:
        run: Trained, and perhaps diversified.
        folder: The folder to write.
        to: Name of the file format: safetensors, npz, parquet, csv or faiss.
        metric: The metric of the index; by default the model's own.
        alpha: Share of the run's trade-off, see :func:`vectors_at`.
        margin: Change the user vectors so that they hold the same lists by this margin, for an index that rounds (see
            :func:`recprism.dials.widen_margins`).
        for_index: A FAISS index: change the user vectors so that they hold the same lists with its decoded vectors.
        part: "live" for lists in which all known interactions count as seen, "test" for those that were evaluated.
        on_step: Receives progress.

    Raises:
        InputError: If an argument is invalid, or if the files do not reproduce the run's lists.

    Stability: provisional.
    """
    chosen, folder = format_named(to), Path(folder)
    if part not in get_args(ExportedPart):
        raise InputError(f"vectors are exported for {' or '.join(get_args(ExportedPart))} lists, not for {part!r}")
    step = count_steps(on_step, "exporting", 4)
    alpha, margin = share(alpha, "alpha"), None if margin is None else share(margin, "margin")
    served, decoded = run.served_factors(base=alpha == 0), None if for_index is None else decoded_vectors(for_index)
    wanted = metric or served.metric
    _require_metric(served, wanted)
    require_new_folder(folder)
    if decoded is not None:  # before live vectors are solved and kept
        as_decoded(served, decoded)
    factors, base = vectors_at(run, alpha, part), run.factors()
    is_certified = alpha in (0, 1) and (not run.is_diversified() or run.diversified().into != RULE)
    scenario = scenario_of(run, live=part == "live")
    if margin is not None or decoded is not None:
        factors, _ = widen_margins(factors, LISTED, exclude=scenario.hidden, margin=margin, decoded=decoded)
    step()
    shown = np.setdiff1d(np.arange(factors.n_items), scenario.constraints.get("banned", []))
    whole, factors, seen = factors, factors.of_items(shown), scenario.seen.of_cols(shown)
    user, item = factors.search_vectors
    versions = version_of(user, factors.user_ids), version_of(item, factors.item_ids)
    about = {"metric": wanted, "user_version": versions[0], "item_version": versions[1]}
    sides = (
        Side("user", user, factors.user_ids, versions[0], versions[1], wanted),
        Side("item", item, factors.item_ids, versions[1], versions[1], wanted),
    )
    with atomic_folder(folder) as temporary:
        users, items = (form.write(temporary, side) for form, side in zip(chosen, sides, strict=True))
        step()
        made = Export(
            format=to,
            alpha=alpha,
            dim=user.shape[1],
            base_dim=base.search_vectors[0].shape[1],
            base_item_version=version_of(base.search_vectors[1], base.item_ids),
            users=users.name,
            items=items.name,
            run=run.path.resolve().name,
            made_from=run.fingerprint(),
            margin=margin,
            for_index=None if for_index is None else Path(for_index).name,
            part=part,
            result=run.result,
            live=_live(run, scenario, whole, is_certified=is_certified) if part == "live" else None,
            items_moved=versions[1] != version_of(base.of_items(shown).search_vectors[1], factors.item_ids),
            constraints=run.constraints.model_dump(exclude_defaults=True),
            **about,
        )
        said = {"schema": SCHEMA, "version": VERSION, **asdict(made)}
        write_text(temporary / "expected.json", json.dumps(_expected(factors, seen), ensure_ascii=False))
        write_text(temporary / "export.json", json.dumps(said, indent=1))
        step()
        _require_same_lists(factors, load_export(temporary), seen, folder)
        step()
    return made


def load_export(folder: str | Path) -> Factors:
    """Read an export as factors.

    Raises:
        InputError: If the folder is not an export, or if the two files do not belong together.

    Stability: provisional.
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
        known = {name: value for name, value in facts.items() if name not in ("schema", "version", "live")}
        return Export(**known, live=LiveFigures(**facts["live"]) if facts.get("live") else None)
    except TypeError as problem:
        raise InputError(f"{path}: not complete ({problem}); export again") from None


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


def _live(run: Run, scenario: Scenario, factors: Factors, *, is_certified: bool) -> LiveFigures:
    """Measure the lists that the files give when items that users have are left out and the constraints applied."""
    items = scenario.rank(factors, LISTED)[0]
    return live_figures(run, scenario, factors, np.arange(factors.n_users), items, is_certified=is_certified)


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
