"""Lists of all users in Parquet files of some users each; a batch that was stopped can be resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.bound import hash_of
from recprism.common.checks import Whole
from recprism.common.executor import Executor, LocalExecutor
from recprism.common.files import atomic_path, is_left_over, readable, require_new_folder, write_text
from recprism.common.ids import id_series
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.version import __version__
from recprism.data.sparse_rows import SparseRows
from recprism.data.stream import stream_parquet
from recprism.errors import InputError
from recprism.forms.differences import Asked, differences
from recprism.forms.rule_file import RuleFile, fingerprint_of
from recprism.operate.batch._shown import ShownRows, read_shown
from recprism.operate.batch._users import UserVectors
from recprism.operate.batch.lists import BatchLists, BatchRule
from recprism.rule.earlier import half_life_of
from recprism.runs.lock import LOCK, held

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA, VERSION = "recprism.batch", 2
MANIFEST = "batch.json"
SHARD_USERS = 50_000
Shard = tuple[int, int, int, SparseRows | None, ShownRows | None]
"""Number, first user, user after the last, seen items of these users, and items of their earlier pages."""


@dataclass(frozen=True)
class BatchJob:
    """What makes the shards; a worker of another machine reads the same paths.

    Attributes:
        export: The folder of the exported rule.
        users: The file of the user vectors.
        folder: The folder of the shards.
        k: Length of the lists.
        device: Where lists are made.
        inputs: Hashes of the rule and of the vectors: the same paths with other contents are another job.
    """

    export: Path
    users: Path
    folder: Path
    k: int
    device: str
    inputs: tuple[str, str]

    def path_of(self, number: int) -> Path:
        return self.folder / f"part-{number:05}.parquet"


@dataclass(frozen=True)
class BatchResult:
    """What a batch made.

    Attributes:
        folder: The folder of the shards.
        users: Number of users.
        shards: Number of shards.
        shards_kept: Number of shards that an earlier run had finished.
        changed: Lists of this run whose items are not those of the list by relevance alone, without constraints.
        made: Lists of this run.
        as_tested: True if the lists are made as the certified ones were; else how they differ.
        seconds: Seconds by stage, summed over the shards of this run.
        processor_seconds: Processor seconds by stage.
    """

    folder: str
    users: int
    shards: int
    shards_kept: int
    changed: int = 0
    made: int = 0
    as_tested: Literal[True] | tuple[str, ...] = True
    seconds: dict[str, float] = field(default_factory=dict)
    processor_seconds: dict[str, float] = field(default_factory=dict)

    def sentences(self) -> tuple[str, ...]:
        """Return the lines to print."""
        kept = f"; {self.shards_kept} of them were finished before" if self.shards_kept else ""
        lines = [f"{self.users:,} lists in {self.shards:,} shards{kept} -> {self.folder}"]
        if self.made:
            lines.append(f"{self.changed:,} of {self.made:,} new lists differ from the list by relevance alone.")
        if self.as_tested is not True:
            lines.append(f"The lists are not made as those that were tested: {', '.join(self.as_tested)}.")
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def make_batch(
    export: str | Path,
    users: str | Path,
    folder: str | Path,
    *,
    seen: str | Path | None = None,
    repeat_seen: bool = False,
    shown: str | Path | None = None,
    no_repeat: int | None = None,
    half_life: float | None = None,
    k: int | None = None,
    shard_users: int = SHARD_USERS,
    device: str = "cpu",
    executor: Executor | None = None,
    on_step: ProgressCallback | None = None,
) -> BatchResult:
    """Make the lists of all users of a file, one Parquet file for each ``shard_users`` of them.

    Memory grows with a shard and not with the number of users; only ids and seen items of all users are held. A
    finished shard is kept: after an interruption, the same call makes the missing ones.

    Args:
        export: What ``recprism export RUN`` wrote, with item vectors.
        users: The user vectors: .npy, .parquet or .safetensors.
        folder: The folder of the shards: new, or one of the same batch.
        seen: A Parquet file, a folder of them, or a pattern: interactions with the columns user_id and item_id. Their
            items are not shown, and they are the users' history.
        repeat_seen: Without ``seen``: make lists that may repeat items which users know, for users without a history.
        shown: Likewise, items of earlier pages, with the columns user_id, item_id and age: 1 for the page before.
        no_repeat: Pages after which a shown item may come again, 0 on the next page; by default it never does.
        half_life: Pages after which what was shown counts half; 1 by default.
        k: Length of the lists; that of the rule by default.
        shard_users: Users of a shard.
        device: "cpu", "auto", "cuda" or "cuda:N".
        executor: Where shards are made: one after the other in this process by default, or on a Ray cluster.
        on_step: Receives progress.

    Raises:
        InputError: A file is missing or damaged, vectors do not fit, the folder holds something else, or there are no
            seen items and ``repeat_seen`` does not say that this is wanted.
        BusyError: Another process writes into the folder.
    """
    executor = LocalExecutor() if executor is None else executor
    if not executor.in_process and device != "cpu":
        raise InputError(f"workers of a cluster rank on processors; device {device!r} needs the local executor")
    if (seen is None) != repeat_seen:
        raise InputError(
            "lists without seen items repeat what users know; name these items with --seen FILE, or say --repeat-seen"
            if seen is None
            else "--seen leaves out what users know, and --repeat-seen repeats it; choose one of them"
        )
    size = int(Whole(1).read("shard_users", shard_users) or 0)
    life = half_life_of(shown is not None, no_repeat, half_life)
    file, vectors = RuleFile.read(export), UserVectors(Path(users))
    rule = BatchRule(file, k=k, device=device)
    places, device = rule.k, str(rule.device)
    del rule  # each process opens its own, and two of them would fill the memory of a GPU
    _require_fit(file, vectors, size)
    paths = (Path(export).resolve(), Path(users).resolve(), Path(folder).resolve())
    known_files, page_files = (
        None if it is None else _files_of(it, name) for it, name in ((seen, "seen items"), (shown, "shown items"))
    )
    job = BatchJob(*paths, places, device, (fingerprint_of(export), hash_of(paths[1])))
    pages = (
        None if page_files is None else {"files": _hash_of_all(page_files), "no_repeat": no_repeat, "half_life": life}
    )
    manifest = _manifest(job, file, len(vectors), size, known_files, pages)
    _require_same(Path(folder), manifest)
    shards = [(at, start, min(start + size, len(vectors))) for at, start in enumerate(range(0, len(vectors), size))]
    known = _seen(known_files, vectors, file)  # before anything is written
    before = None if page_files is None else read_shown(page_files, vectors.ids, file.item_ids, no_repeat, life)
    with held(job.folder):
        _begin(job.folder, manifest)
        missing = [it for it in shards if not _is_finished(job.path_of(it[0]), it[2] - it[1])]
        pieces = _Pieces(missing, known, before)
        step = count_steps(on_step, "shards", len(missing))
        try:
            with executor:
                made = list(executor.map(make_shard, job, pieces, on_done=step))
        finally:
            _opened.cache_clear()
    return _summed(job, made, len(vectors), len(shards), manifest["as_tested"])


def make_shard(job: BatchJob, shard: Shard) -> dict[str, Any]:
    """Make one shard and write its file; return the figures that are summed."""
    number, start, stop, seen, shown = shard
    rule, users = _opened(job)
    before = dict(rule.times.seconds), dict(rule.times.processor_seconds)
    with rule.times.stage("reading"):
        vectors = users.rows(start, stop)
    lists = rule(vectors, seen, shown)
    with rule.times.stage("writing"), atomic_path(job.path_of(number)) as temporary:
        _frame(lists, users.ids[start:stop], rule.file).write_parquet(temporary)
    now = rule.times.seconds, rule.times.processor_seconds
    return {
        "lists": len(vectors),
        "changed": int((np.sort(lists.items) != np.sort(lists.base)).any(1).sum()),
        "times": [{name: it[name] - was.get(name, 0.0) for name in it} for it, was in zip(now, before, strict=True)],
    }


@lru_cache(maxsize=1)
def _opened(job: BatchJob) -> tuple[BatchRule, UserVectors]:
    """Open the files once in each process."""
    rule = BatchRule(RuleFile.read(job.export), k=job.k, device=job.device)
    return rule, UserVectors(job.users)


class _Pieces(Sequence[Shard]):
    """The shards to make; the seen items of a shard are cut out when it is taken."""

    def __init__(self, shards: list[tuple[int, int, int]], seen: SparseRows | None, shown: ShownRows | None) -> None:
        self._shards, self._seen, self._shown = shards, seen, shown

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, at: Any) -> Any:
        number, start, stop = self._shards[at]
        some = None if self._seen is None else self._seen.take_rows(np.arange(start, stop))
        return number, start, stop, some, None if self._shown is None else self._shown.of_users(start, stop)

    def __iter__(self) -> Iterator[Shard]:
        return (self[at] for at in range(len(self)))


def _require_fit(file: RuleFile, vectors: UserVectors, size: int) -> None:
    """Look at all vectors before anything is written; ``size`` of them are in memory at a time."""
    wanted = 0 if file.item_vectors is None else file.item_vectors.shape[1]
    for start in range(0, len(vectors), size):
        found = vectors.rows(start, min(start + size, len(vectors))).shape[1]
        if wanted != found:
            raise InputError(
                f"{vectors.path}: vectors have {found} columns, and the item vectors of the export {wanted}; give the "
                "user vectors of the same model"
            )


def _files_of(given: str | Path, what: str) -> list[Path]:
    """Return files of items, sorted: those that are hashed are those that are read."""
    path = Path(given)
    if path.is_file():
        return [path]
    pattern = str(path / "**" / "*.parquet") if path.is_dir() else str(given)
    found = [Path(it) for it in sorted(glob(pattern, recursive=True))]  # noqa: PTH207 - a pattern may be absolute
    files = [it for it in found if it.is_file()]
    if not files:
        raise InputError(f"{given}: no such file; {what} are a Parquet file, a folder of them, or a pattern")
    return files


def _seen(files: list[Path] | None, vectors: UserVectors, file: RuleFile) -> SparseRows | None:
    """Read the seen items.

    Raises:
        InputError: If none of them belongs to a user of the vectors and an item of the export.
    """
    if files is None:
        return None
    found = stream_parquet(files, user_ids=vectors.ids, item_ids=file.item_ids).matrix
    if not len(found):
        rows = "; users of a .npy file are numbers from 0" if vectors.path.suffix == ".npy" else ""
        raise InputError(f"{files[0]}: no row has a user of {vectors.path} and an item of the export{rows}")
    return found


def _hash_of_all(files: list[Path]) -> str:
    return hash_of("".join(map(hash_of, files)).encode())


def _manifest(
    job: BatchJob, file: RuleFile, n_users: int, size: int, seen: list[Path] | None, pages: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the settings and the hashes of the inputs: shards of another batch differ in one of them."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "recprism version": __version__,
        "rule": job.inputs[0],
        "user vectors": job.inputs[1],
        "seen items": None if seen is None else _hash_of_all(seen),
        "shown items": pages,
        "users": n_users,
        "shard_users": size,
        "k": job.k,
        "device": job.device,
        "certificate": None if file.certificate is None else file.certificate.to_dict(),
        "as_tested": list(_differences(job, file, seen is not None, pages is not None)) or True,
    }


def _differences(job: BatchJob, file: RuleFile, has_history: bool, shown: bool) -> tuple[str, ...]:
    """Return how the lists differ from those that were tested; scores are those of the export's own item vectors."""
    scorer = None if file.certificate is None else file.certificate.scorer
    return differences(
        file,
        Asked(
            trade_off=file.trade_off,
            k=job.k,
            candidates=file.candidates,
            scorer=scorer,
            has_history=has_history,
            shown=shown,
        ),
    )


def _require_same(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise an error if the folder holds another batch, or something else."""
    path = folder / MANIFEST
    if not path.exists():
        if not folder.is_dir() or {it.name for it in folder.iterdir() if not is_left_over(it)} - {LOCK}:
            require_new_folder(folder)
        return
    with readable(path, "damaged", "name a new folder"):
        before = json.loads(path.read_text(encoding="utf-8"))
    other = [name for name in manifest if before.get(name) != manifest[name]]
    if other:
        raise InputError(f"{folder}: its shards were not made with the same {' and '.join(other)}; name a new folder")


def _begin(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a new batch, and remove what a killed process left."""
    _require_same(folder, manifest)
    for path in folder.iterdir():
        if is_left_over(path):
            path.unlink()
    if not (folder / MANIFEST).exists():
        write_text(folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False))


def _is_finished(path: Path, n_users: int) -> bool:
    """Whether a shard is there and whole; a damaged one is made again."""
    if not path.exists():
        return False
    try:
        return int(pl.scan_parquet(path).select(pl.len()).collect().item()) == n_users
    except Exception:
        return False


def _frame(lists: BatchLists, user_ids: NDArray[Any], file: RuleFile) -> pl.DataFrame:
    """Return one row per user: id, items and scores without empty places."""
    order = np.argsort(lists.items < 0, axis=1, kind="stable")  # empty places last
    items, scores = np.take_along_axis(lists.items, order, 1), np.take_along_axis(lists.scores, order, 1)
    ids = id_series(file.item_ids[items.ravel().clip(0)]).reshape(items.shape).arr.to_list()
    table = pl.DataFrame({"user_id": id_series(user_ids), "items": ids, "scores": pl.Series(scores).arr.to_list()})
    lengths = (items >= 0).sum(1)
    if (lengths < items.shape[1]).any():
        table = table.with_columns(pl.col("items", "scores").list.head(pl.lit(pl.Series(lengths))))
    return table


def _summed(
    job: BatchJob, made: list[dict[str, Any]], n_users: int, n_shards: int, as_tested: Literal[True] | list[str]
) -> BatchResult:
    seconds, processor = ({}, {}) if not made else (_sums([it["times"][at] for it in made]) for at in (0, 1))
    return BatchResult(
        str(job.folder),
        n_users,
        n_shards,
        n_shards - len(made),
        sum(it["changed"] for it in made),
        sum(it["lists"] for it in made),
        as_tested if as_tested is True else tuple(as_tested),
        seconds,
        processor,
    )


def _sums(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part.get(name, 0.0) for part in parts) for name in parts[0]}
