"""Vectors for a real stack: written with ids and versions, read back and ranked before they count as good.

A folder holds one file per side, ``export.json`` (what belongs together, made from what) and ``expected.json`` (some
users' lists, to try an installation with). User vectors belong with one version of the item vectors; any others are
refused when the two are loaded together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from recprism.data._files import atomic_folder, readable, write_text
from recprism.data._ids import as_id_array, id_positions
from recprism.data.incidence import Incidence
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import Share, share
from recprism.deploy._export_formats import Side, decoded_vectors, format_named
from recprism.deploy.live import LiveFigures, live_factors, live_figures
from recprism.dials.solve import widen_margins
from recprism.errors import InputError
from recprism.models import COSINE, INNER_PRODUCT, Factors
from recprism.runs.run import Run

ExportedPart = Literal["live", "test"]
SCHEMA, VERSION = "recprism.export", 1
LISTED = 10
TRIED = 20  # users whose lists stand in expected.json
CHECKED = 1000  # users who are ranked from the files before an export counts as written
UNIT = 1e-4  # by which the length of a vector for cosine may miss 1


@dataclass(frozen=True)
class Export:
    """What was written.

    user_version, item_version: of the vectors, by their contents; where nothing moved on a side, its version is the
        base's, and an index that holds it can stay as it is
    alpha: 1 is the run's own vectors, 0 the trained model's: the way back
    margin, for_index: user vectors that hold the lists by this margin; in the index of this name, whose decoded vectors
        stand in the file of the items
    part: the lists that the vectors are for: live, or those that the test part judges; result: its name, if it has one
    live: what live lists show, for vectors that are for them
    """

    format: str
    metric: str
    alpha: float
    dim: int
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

    @property
    def index_stays(self) -> bool:
        return self.for_index is not None or self.item_version == self.base_item_version


def blended(run: Run, alpha: Share, part: ExportedPart = "live") -> Factors:
    """The trained model's vectors and a share ``alpha`` of the run's change; 0 and 1 are exact."""
    alpha = share(alpha, "alpha")
    base = run.factors()
    if alpha == 0 or not run.is_diversified():
        return base
    served = live_factors(run) if part == "live" else run.served_factors()
    if alpha == 1:
        return served
    mixed = {side: _mix(getattr(base, side), getattr(served, side), alpha) for side in ("user", "item")}
    found = base.with_vectors(**mixed)
    return found.on_sphere() if base.metric == COSINE else found


def _mix(base: NDArray[np.float32], served: NDArray[np.float32], alpha: float) -> NDArray[np.float32]:
    return (base + np.float32(alpha) * (served - base)).astype(np.float32)


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
    """Write the vectors that a run serves; refused where the files would not give the run's lists.

    part: "live", vectors for lists that take all known interactions as seen, or "test", those that were judged

    to: a name of ``export_formats.FORMATS``; metric: what the index searches by, the model's own unless named
    margin: user vectors that hold the same lists more firmly, for an index that rounds (see ``widen_margins``)
    for_index: a file of FAISS: user vectors that hold the same lists in what this index decodes its codes to
    """
    chosen, folder = format_named(to), Path(folder)
    if part not in get_args(ExportedPart):
        raise InputError(f"vectors are exported for {' or '.join(get_args(ExportedPart))} lists, not for {part!r}")
    step = count_steps(on_step, "exporting", 4)
    alpha, margin = share(alpha, "alpha"), None if margin is None else share(margin, "margin")
    factors, base = blended(run, alpha, part), run.factors()
    wanted = metric or factors.metric
    _require_metric(factors, wanted)
    seen = run.split().live().train if part == "live" else run.split().seen_before("test")
    if margin is not None or for_index is not None:
        decoded = None if for_index is None else decoded_vectors(for_index)
        factors, _ = widen_margins(factors, LISTED, exclude=seen, margin=margin, decoded=decoded)
    step()
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
            base_item_version=version_of(base.search_vectors[1], base.item_ids),
            users=users.name,
            items=items.name,
            run=run.path.resolve().name,
            made_from=run.fingerprint(),
            margin=margin,
            for_index=None if for_index is None else Path(for_index).name,
            part=part,
            result=run.result,
            live=_live(run, factors, seen, is_certified=alpha in (0, 1)) if part == "live" else None,
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
    """Read an export back as factors; a pair that does not belong together is refused."""
    folder = Path(folder)
    about = _manifest(folder)
    for_users, for_items = format_named(about.format)
    return pair(for_users.read(folder / about.users, "user"), for_items.read(folder / about.items, "item"))


def as_expected(vectors: Factors, entry: Mapping[str, Any], items: Sequence[Any]) -> bool:
    """Whether item ids from an engine are an entry of ``expected.json``; items of equal score may change places.

    Baked vectors stand where several items score alike: the last digit then decides, and every engine has its own.
    """
    if len(set(items)) != len(items) or len(items) != len(entry["items"]):
        return False
    user = id_positions(as_id_array([entry["user"]], "user"), vectors.user_ids, "user")
    item = id_positions(as_id_array(list(items), "item"), vectors.item_ids, "item")
    wanted, scores = np.array(entry["scores"]), vectors.item[item] @ vectors.user[user[0]]
    return np.allclose(scores, wanted, rtol=0, atol=1e-6 + 1e-5 * float(np.abs(wanted).max(initial=0)))


def pair(user: Side, item: Side) -> Factors:
    """Two sides put together, where they belong together and are what they were when they were written."""
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
    """Twelve letters of the contents: vectors and whose they are."""
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
    """Under cosine the length of an item vector is thrown away: lists hold only if it was 1 all along."""
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


def _live(run: Run, factors: Factors, seen: Incidence, *, is_certified: bool) -> LiveFigures:
    """What the files give by themselves: whoever reads them leaves out what users have, and no more."""
    rows = np.arange(factors.n_users)
    items = factors.rank(LISTED, exclude=seen)[0]
    return live_figures(run, factors, rows, items, seen, is_certified=is_certified)


def _expected(factors: Factors, seen: Any) -> dict[str, Any]:
    """Lists with and without what the users have seen, which an index does not know about."""
    rows = np.unique(np.linspace(0, factors.n_users - 1, min(TRIED, factors.n_users)).astype(np.int64))
    found = {}
    for name, exclude in (("without_seen", seen), ("everything", None)):
        items, scores = factors.rank(min(LISTED, factors.n_items), exclude=exclude, users=rows)
        found[name] = [
            {
                "user": factors.user_ids[row : row + 1].tolist()[0],
                "items": factors.item_ids[items[at][items[at] >= 0]].tolist(),
                "scores": [round(float(score), 6) for score in scores[at][items[at] >= 0]],
            }
            for at, row in enumerate(rows)
        ]
    return found


def _require_same_lists(factors: Factors, read: Factors, seen: Any, folder: Path) -> None:
    """Rank from the files, as whoever installs them will."""
    rows = np.arange(min(CHECKED, factors.n_users))
    wanted, found = (it.rank(LISTED, exclude=seen, users=rows)[0] for it in (factors, read))
    if not np.array_equal(wanted, found):
        share = float((wanted == found).mean())
        raise InputError(f"{folder}: the files give only {share:.1%} of the run's lists back; do not install them")
