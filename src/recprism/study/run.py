"""The run directory: everything a run was asked, did and found, in files that other tools can read.

config.toml            what was asked
events.jsonl           what happened, one object a line
split.parquet          user_id, item_id, part
items.parquet          item_id and attributes
subtopics.parquet      item_id, subtopic, weight
*.checkpoint.safetensors  where an interrupted training or search goes on (gone once it ended)
factors.safetensors    user and item vectors, with factors.json for ids and settings
delta.safetensors      the perturbation, with cmb.json for its settings and history
certificate.json       what the perturbation is certified to cost, where a budget was given
explanation.json       what it changed and which claims about factors survived their controls
recommendations.parquet  user_id, item_id, rank, score
path.GOAL.safetensors  lists along the path towards a goal, from which any budget is answered at once
report.html            one page about all of it
CARD.md                what the run is, in words
metrics.parquet        metric, k, part, mean, low, high, ...
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.counterfactual import CMB
from recprism.data.bound import hash_of, note, noted_in_table, noted_in_tensors, require_bound
from recprism.data.dataset import Dataset
from recprism.data.files import atomic_path, readable, require_rights, storable, write_text
from recprism.data.frames import number_ids, subtopics_from_frame
from recprism.data.incidence import Incidence
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError, RecprismError
from recprism.models import Factors
from recprism.study.config import DiversifyConfig, RunConfig, read_config, write_config
from recprism.study.lock import LOCK, held
from recprism.study.sinks import Guarded

log = logging.getLogger(__name__)
PARTS: tuple[Part, ...] = ("train", "validation", "test")
STEPS = ("epoch", "step")
"""Events that tell how far something has come: done of total."""
BOUND = "made_from"
SERVED = ("split.parquet", "factors.safetensors", "delta.safetensors")
"""What the lists of a run come from; whatever is said of them records the hashes of these."""
TRAINED, DIVERSIFIED = "trained", "diversified"
OF_PERTURBATION = (
    *("metrics.parquet", "recommendations.parquet", "delta.safetensors", "cmb.json"),
    *("certificate.json", "explanation.json", "report.html"),
)
"""What goes, in this order, with a perturbation that is replaced."""
STATE = ("config.toml", "split.parquet", "factors.safetensors", "delta.safetensors", "cmb.json", "certificate.json")
"""Files that a page or an explanation must find all of the same moment."""


class Run:
    """Reads and writes one run directory; no other part of the package knows its files."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.sinks: list[Guarded] = []

    @classmethod
    def create(cls, path: str | Path, config: RunConfig, *, overwrite: bool = False) -> Run:
        """A fresh directory; one that already holds a run is refused unless ``overwrite``."""
        run = cls(path)
        run.require_free(overwrite=overwrite)
        with held(run.path):
            run._clear()
            write_config(run.path / "config.toml", config)
        return run

    def require_free(self, *, overwrite: bool = False) -> None:
        """Refuse a place where no run can be made, or where there is one already that may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; name a directory for the run")
        if (self.path / "config.toml").exists():
            if not overwrite:
                raise InputError(f"{self.path}: already holds a run; use --resume, --overwrite or another -o")
        elif self.path.exists() and any(file.name != LOCK for file in self.path.iterdir()):
            raise InputError(f"{self.path}: is not empty and holds no run; name an empty or new directory")

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run; anything else is refused."""
        run = cls(path)
        read_config(run.path / "config.toml")
        return run

    @property
    def config(self) -> RunConfig:
        return read_config(self.path / "config.toml")

    def event(self, kind: str, **facts: Any) -> None:
        """Append one line to events.jsonl, and tell whoever follows the run."""
        event = {"time": round(time.time(), 3), "event": kind, **facts}
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
        path = self.path / "events.jsonl"
        with storable(path), path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = (
                    line if file.read() == b"\n" else b"\n" + line
                )  # the last was cut short, by a kill or a full disk
            file.write(line)
        for sink in self.sinks:
            sink.tell("event", event)

    def events(self, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What happened, oldest first, apart from some kinds; a last line that was cut short is left out."""
        path = self.path / "events.jsonl"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        found = []
        for line in text.split("\n"):  # not splitlines: a value may hold U+2028
            try:
                event = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue
            if isinstance(event, dict) and event.get("event") not in without:
                found.append(event)
        return found

    def has_events(self) -> bool:
        return (self.path / "events.jsonl").exists()

    # -- data ---------------------------------------------------------------------------------------------------------

    def save_data(self, dataset: Dataset, split: Split) -> None:
        """Keep the split, the attributes and the subtopics: a run stands without the original files."""
        parts = io.BytesIO()
        _long_split(split).write_parquet(parts)
        bound = note(**{"split.parquet": hash_of(parts.getvalue())})
        self._write_frame("items", dataset.attributes, bound)
        self._write_frame("subtopics", _long_subtopics(dataset.subtopics, split.item_ids), bound)
        with atomic_path(self.path / "split.parquet") as temporary:
            temporary.write_bytes(parts.getvalue())

    def has_data(self) -> bool:
        return (self.path / "split.parquet").exists()

    def split(self) -> Split:
        frame = self._read_frame("split")
        if not {"user_id", "item_id", "part"} <= set(frame.columns) or frame["part"].dtype != pl.String:
            raise InputError(f"{self.path / 'split.parquet'}: damaged (not the columns of a split); make the run again")
        user_ids, user = number_ids(frame["user_id"])
        item_ids, item = number_ids(frame["item_id"])
        shape = (len(user_ids), len(item_ids))
        masks = [(frame["part"] == part).to_numpy() for part in PARTS]
        train, validation, test = (Incidence.from_pairs(user[mask], item[mask], shape) for mask in masks)
        return Split(train, validation, test, user_ids, item_ids, self.config.split.model_dump())

    def subtopics(self) -> Subtopics:
        items = self._read_frame("items")["item_id"]
        return subtopics_from_frame(self._read_frame("subtopics"), number_ids(items)[0], where="subtopics.parquet")

    def items(self) -> pl.DataFrame:
        """item_id and attributes, in the order of the item numbers."""
        return self._read_frame("items")

    # -- training -----------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], step: str = "training"
    ) -> None:
        """State of an unfinished step."""
        _write_tensors(self._checkpoint(step), tensors, facts)

    def load_checkpoint(self, step: str = "training") -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        path = self._checkpoint(step)
        try:
            return _read_tensors(path) if path.exists() else None
        except ValueError as broken:
            again = f"recprism {'train' if step == 'training' else 'diversify'} --resume {self.path}"
            raise InputError(
                f"{path}: damaged checkpoint ({broken}); delete it, and `{again}` starts this step anew"
            ) from None

    def drop_checkpoint(self, step: str = "training") -> None:
        self._checkpoint(step).unlink(missing_ok=True)

    def _checkpoint(self, step: str) -> Path:
        return self.path / f"{step}.checkpoint.safetensors"

    def save_factors(self, factors: Factors) -> None:
        factors.save(self.path / "factors.safetensors", made_from=self._hashes("split.parquet"))

    def has_factors(self) -> bool:
        return (self.path / "factors.safetensors").exists()

    def factors(self) -> Factors:
        """The trained model's."""
        if not self.has_factors():
            raise InputError(f"{self.path}: holds no trained model yet; run `recprism train --resume {self.path}`")
        require_rights(self.path / "factors.safetensors")
        path, now = self.path / "factors.safetensors", self._hashes("split.parquet")
        require_bound(path, noted_in_tensors(path), now, f"run `recprism train -o {self.path} --overwrite`")
        return Factors.load(path)

    def _hashes(self, *names: str) -> dict[str, str]:
        return {name: hash_of(self.path / name) for name in names}

    def served_factors(self, *, base: bool = False) -> Factors:
        """What the run serves: perturbed where it was diversified, unless ``base`` asks for the trained model's."""
        return self.factors() if base or not self.is_diversified() else self.cmb().factors_

    def fingerprint(self) -> str:
        """Of vectors, split and subtopics: what is made from others is not of this run."""
        digest = hashlib.sha256()
        for name in ("factors.safetensors", "split.parquet", "subtopics.parquet"):
            try:
                with (self.path / name).open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
                    _require_whole_parquet(self.path / name, file)
            except FileNotFoundError:
                raise InputError(f"{self.path}: has no {name}; run `recprism train --resume {self.path}`") from None
        return digest.hexdigest()

    def save_path(
        self, goal: str, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any], made_from: str
    ) -> None:
        """The path towards a goal; made_from: the fingerprint, taken before anything was read for it."""
        _write_tensors(self._path_file(goal), tensors, {"made_from": made_from, **facts})

    def load_path(self, goal: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
        """None where there is none, where it is of other vectors, or where it is damaged: it can be made again."""
        path = self._path_file(goal)
        try:
            tensors, facts = _read_tensors(path)
        except (FileNotFoundError, ValueError):
            return None
        return (tensors, facts) if facts.pop("made_from", None) == self.fingerprint() else None

    def _path_file(self, goal: str) -> Path:
        return self.path / f"path.{goal}.safetensors"

    # -- diversifying -------------------------------------------------------------------------------------------------

    def require_undiversified(self, *, overwrite: bool = False) -> None:
        """Refuse a second perturbation, unless it may replace the first."""
        if self.config.diversify is not None and not overwrite:
            raise InputError(f"{self.path}: already has a perturbation; use --resume, --overwrite or another run")

    def set_diversify(self, config: DiversifyConfig, *, overwrite: bool = False) -> None:
        """Note what is about to be searched for; a run holds one perturbation."""
        self.require_undiversified(overwrite=overwrite)
        require_rights(self.path / "events.jsonl", write=True)  # before anything goes
        if self.config.diversify is not None:
            self.drop_checkpoint("search")
            for name in OF_PERTURBATION:
                (self.path / name).unlink(missing_ok=True)
        write_config(self.path / "config.toml", self.config.model_copy(update={"diversify": config}))

    def save_cmb(self, cmb: CMB) -> None:
        measured = self.metrics() if self.measured() == TRAINED else None
        if measured is None:
            (self.path / "metrics.parquet").unlink(missing_ok=True)  # of the perturbation that is replaced
        before = self._hashes("factors.safetensors")
        cmb.save(self.path, made_from=self._hashes("split.parquet"))
        if measured is not None and before != self._hashes("factors.safetensors"):
            self.save_metrics(measured, base=True)  # the base was turned onto other axes: other bytes, the same lists

    def save_certificate(self, facts: Mapping[str, Any]) -> None:
        bound = {BOUND: self._hashes(*SERVED)}
        write_text(self.path / "certificate.json", json.dumps({**facts, **bound}, indent=1))

    def is_diversified(self) -> bool:
        return (self.path / "delta.safetensors").exists()

    def cmb(self) -> CMB:
        if not self.is_diversified():
            raise InputError(f"{self.path}: holds no perturbation yet; run `recprism diversify {self.path}`")
        require_rights(self.path / "delta.safetensors")
        return CMB.load(self.path)

    def certificate(self) -> dict[str, Any] | None:
        """What the perturbation is certified to cost, as it was written; None where no budget was given."""
        return self._read_json("certificate", "diversify")

    def save_explanation(self, facts: Mapping[str, Any]) -> Path:
        path = self.path / "explanation.json"
        bound = {BOUND: self._hashes(*SERVED)}
        write_text(path, json.dumps({**facts, **bound}, indent=1, ensure_ascii=False))
        return path

    def explanation(self) -> dict[str, Any] | None:
        """What was explained last, or None."""
        return self._read_json("explanation", "explain")

    # -- results ------------------------------------------------------------------------------------------------------

    def save_recommendations(self, frame: pl.DataFrame) -> Path:
        return self._write_frame("recommendations", frame, note(**self._hashes(*SERVED)))

    def save_metrics(self, frame: pl.DataFrame, *, base: bool = False) -> Path:
        """Rows that judge the lists served, or with ``base`` those of the trained model, whatever was found since."""
        return self._write_frame("metrics", frame, note(**self._hashes(*(SERVED[:2] if base else SERVED))))

    def measured(self) -> str | None:
        """Whose lists the rows of metrics.parquet judge; None where there are none."""
        path = self.path / "metrics.parquet"
        if not path.exists():
            return None
        with readable(path, "damaged", f"run `recprism evaluate {self.path}` again"):
            return DIVERSIFIED if "delta.safetensors" in self._noted("metrics") else TRAINED

    def metrics(self) -> pl.DataFrame:
        return self._read_frame("metrics", f"run `recprism evaluate {self.path}` again")

    def save_card(self, text: str) -> None:
        write_text(self.path / "CARD.md", text)

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    def _write_frame(self, name: str, frame: pl.DataFrame, bound: Mapping[str, str]) -> Path:
        path = self.path / f"{name}.parquet"
        with atomic_path(path) as temporary:
            frame.write_parquet(temporary, metadata=dict(bound))
        return path

    def _read_frame(self, name: str, advice: str = "put this run's own back, or make the run again") -> pl.DataFrame:
        path = self.path / f"{name}.parquet"
        if not path.exists():
            raise InputError(f"{path}: no such file; this run has not come so far, or lost it")
        with readable(path, "damaged", f"run the command that made it again, or another run in place of {self.path}"):
            made_from = self._noted(name)
            require_bound(path, made_from, self._hashes(*(it for it in SERVED if it in made_from)), advice)
            return pl.read_parquet(path)

    def _noted(self, name: str) -> Mapping[str, str]:
        return noted_in_table(pl.read_parquet_metadata(self.path / f"{name}.parquet"))

    def _read_json(self, name: str, command: str) -> dict[str, Any] | None:
        """None where there is no such file; ``command`` makes it."""
        path = self.path / f"{name}.json"
        if not path.exists():
            return None
        with readable(path, "not valid JSON", f"run `recprism {command} {self.path}` again"):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise TypeError("not an object")
            made_from = found.pop(BOUND, {})
            if not isinstance(made_from, dict):
                raise TypeError(f"{BOUND} is not an object")
        require_bound(path, made_from, self._hashes(*SERVED), f"run `recprism {command} {self.path}` again")
        return found

    def _clear(self) -> None:
        """What was made from other files goes before them: whatever is left of a run at any moment belongs together."""
        first_made = [f"{name}.parquet" for name in ("subtopics", "items", "split")] + ["config.toml"]
        files = [file for file in self.path.iterdir() if file.is_file() and file.name != LOCK]
        for file in sorted(files, key=lambda it: first_made.index(it.name) if it.name in first_made else -1):
            file.unlink()

    @contextmanager
    def unchanged(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """What is read within the block is of one state: an error at its end if somebody wrote meanwhile.

        Yields how to save what was made from it: ``with saving(): ...`` holds the lock, and is refused where the run is
        no longer what was read.
        """
        before = self._state()

        def require() -> None:
            if self._state() != before:
                raise RecprismError(
                    f"{self.path}: another process changed this run while it was read; "
                    "give the command again once it ended"
                )

        @contextmanager
        def saving() -> Iterator[None]:
            with held(self.path):
                require()
                yield

        yield saving
        require()

    def _state(self) -> list[tuple[str, int, int]]:
        found = [(name, self.path / name) for name in STATE]
        return [(name, it.stat().st_mtime_ns, it.stat().st_size) for name, it in found if it.exists()]


def _require_whole_parquet(path: Path, file: BinaryIO) -> None:
    """A Parquet file ends as it begins; what is made from a damaged one would be bound to the damage."""
    if path.suffix != ".parquet":
        return
    file.seek(-min(4, path.stat().st_size), os.SEEK_END)
    if file.read() != b"PAR1":
        raise InputError(f"{path}: damaged (its end is missing); make the run again, or put the file back")


def _write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Facts travel inside the file of the tensors, so that the two cannot disagree."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(arrays, temporary, metadata={"facts": json.dumps(dict(facts))})


def _read_tensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """ValueError where the file is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 - not a mapping
    except (SafetensorError, KeyError, json.JSONDecodeError) as broken:
        raise ValueError(str(broken)) from None


def _long_split(split: Split) -> pl.DataFrame:
    frames = []
    for name in PARTS:
        part = split.part(name)
        columns = {"user_id": split.user_ids[part.row_of_entry], "item_id": split.item_ids[part.indices]}
        frames.append(pl.DataFrame(columns).with_columns(part=pl.lit(name)))
    return pl.concat(frames)


def _long_subtopics(subtopics: Subtopics, item_ids: NDArray[Any]) -> pl.DataFrame:
    names = np.asarray(subtopics.names, dtype=object)
    weights = np.ones(len(subtopics.items), np.float32) if subtopics.weights is None else subtopics.weights
    columns = {
        "item_id": item_ids[subtopics.items.row_of_entry],
        "subtopic": names[subtopics.items.indices],
        "weight": weights,
    }
    schema = {"subtopic": pl.String, "weight": pl.Float32}
    return pl.DataFrame(columns, schema_overrides=schema)
