"""File formats of exported vectors: how each format writes and reads one side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.common.extras import needing
from recprism.common.files import atomic_path, readable, write_text
from recprism.common.ids import as_id_array
from recprism.errors import InputError


@dataclass(frozen=True, eq=False)
class Side:
    """One side of an exported recommender.

    Attributes:
        name: "user" or "item".
        vectors: (n, d) float32 whose dot product is the score.
        ids: (n,) ids.
        version: Version of this side.
        belongs_with: Version of the item side that it was made for.
        metric: The metric of the index.
    """

    name: str
    vectors: NDArray[np.float32]
    ids: NDArray[Any]
    version: str
    belongs_with: str
    metric: str

    def about(self) -> dict[str, str]:
        """Return the metadata that the file contains."""
        return {
            "side": self.name,
            "version": self.version,
            "belongs_with": self.belongs_with,
            "metric": self.metric,
            "ids": "int" if self.ids.dtype.kind == "i" else "str",
        }


@dataclass(frozen=True)
class Format:
    """One file format.

    Attributes:
        ending: Suffix of the files.
        save: Writes one side to a path.
        load: Reads vectors, ids and metadata from a path.
        sidecar: Content of a .json file of the same name, if the format has no room for metadata.
    """

    ending: str
    save: Callable[[Path, Side], None]
    load: Callable[[Path], tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]]
    sidecar: Callable[[Side], str] | None = None

    def write(self, folder: Path, side: Side) -> Path:
        """Write users-VERSION.ending or items-VERSION.ending; a file name belongs to one version only."""
        path = folder / f"{side.name}s-{side.version}{self.ending}"
        if self.sidecar is not None:
            write_text(path.with_suffix(".json"), self.sidecar(side))
        with atomic_path(path) as temporary:
            self.save(temporary, side)
        return path

    def read(self, path: Path, side: str) -> Side:
        with readable(path, f"not {side} vectors written by recprism", "export again, or copy both files"):
            vectors, ids, about = self.load(path)
            if about["side"] != side:
                raise InputError(f"{path}: holds {about['side']} vectors where {side} vectors are needed")
            known = as_id_array(ids.astype(np.int64) if about["ids"] == "int" else ids, side)
            matrix = np.ascontiguousarray(vectors, np.float32)
            return Side(side, matrix, known, about["version"], about["belongs_with"], about["metric"])


def format_named(name: str) -> tuple[Format, Format]:
    """Return the formats of user vectors and of item vectors."""
    if name not in FORMATS:
        raise InputError(f"vectors are exported to {', '.join(FORMATS)}, not to {name!r}")
    if name == "faiss":
        _faiss()  # without the package, neither side can be used
    return FORMATS[name]


def _save_npz(path: Path, side: Side) -> None:
    about = np.array(json.dumps(side.about()))
    with path.open("wb") as file:  # savez would append .npz to the temporary name
        ids = side.ids if side.ids.dtype.kind == "i" else side.ids.astype(str)
        np.savez(file, vectors=side.vectors, ids=ids, about=about)


def _load_npz(path: Path) -> tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["vectors"], arrays["ids"], json.loads(str(arrays["about"]))


def _save_safetensors(path: Path, side: Side) -> None:
    from safetensors.numpy import save_file

    about = {**side.about(), "id_list": json.dumps(side.ids.tolist(), ensure_ascii=False)}
    save_file({"vectors": np.ascontiguousarray(side.vectors)}, path, metadata=about)


def _load_safetensors(path: Path) -> tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        about = dict(file.metadata() or {})
        ids = json.loads(about.pop("id_list"))
        return file.get_tensor("vectors"), np.array(ids, dtype=_loaded(about)), about


def _save_parquet(path: Path, side: Side) -> None:
    frame = pl.DataFrame({f"{side.name}_id": side.ids, "vector": pl.Series(side.vectors)})
    frame.write_parquet(path, metadata={"recprism": json.dumps(side.about())})


def _load_parquet(path: Path) -> tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]:
    about = json.loads(pl.read_parquet_metadata(path)["recprism"])
    frame = pl.read_parquet(path)
    return frame["vector"].to_numpy(), frame[f"{about['side']}_id"].to_numpy(), about


def _save_csv(path: Path, side: Side) -> None:
    """Write metadata to the first line, and nine digits, the precision of float32."""
    columns = {f"v{at}": side.vectors[:, at] for at in range(side.vectors.shape[1])}
    with path.open("wb") as file:
        file.write(f"# recprism {json.dumps(side.about())}\n".encode())
        pl.DataFrame({f"{side.name}_id": side.ids, **columns}).write_csv(file)


def _load_csv(path: Path) -> tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]:
    with path.open(encoding="utf-8") as file:
        about = json.loads(file.readline().removeprefix("# recprism "))
    name = f"{about['side']}_id"
    types = {name: pl.Int64 if about["ids"] == "int" else pl.String}
    frame = pl.read_csv(path, skip_rows=1, schema_overrides=types, infer_schema_length=None)
    vectors = frame.drop(name).cast(pl.Float32).to_numpy()
    return np.ascontiguousarray(vectors), frame[name].to_numpy(), about


def _save_faiss(path: Path, side: Side) -> None:
    """Write an exact index by inner product; rows are numbered from 0 in the order of the ids."""
    faiss = _faiss()
    index = faiss.IndexFlatIP(side.vectors.shape[1])
    index.add(np.ascontiguousarray(side.vectors))
    faiss.write_index(index, str(path))


def _faiss_ids(side: Side) -> str:
    """Return metadata and ids, for which an index has no room."""
    return json.dumps({**side.about(), "id_list": side.ids.tolist()}, ensure_ascii=False)


def _load_faiss(path: Path) -> tuple[NDArray[np.float32], NDArray[Any], Mapping[str, str]]:
    if not path.exists():
        raise FileNotFoundError(path)
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    index = _faiss().read_index(str(path))
    return index.reconstruct_n(0, index.ntotal), np.array(about.pop("id_list"), dtype=_loaded(about)), about


def decoded_vectors(path: str | Path) -> NDArray[np.float32]:
    """(n, d) vectors as a FAISS index decodes them after rounding, in order of rows."""
    if not Path(path).exists():
        raise InputError(f"{path}: no such file; name an index written by faiss.write_index")
    faiss = _faiss()
    try:
        index = faiss.read_index(str(path))
        cells = faiss.try_extract_index_ivf(index)
        if cells is not None:
            cells.make_direct_map()
        return np.asarray(index.reconstruct_n(0, index.ntotal), np.float32)
    except RuntimeError as broken:
        reason = str(broken).strip().splitlines()[-1]
        raise InputError(f"{path}: not an index whose vectors FAISS can decode ({reason})") from None


def _faiss() -> Any:
    with needing("an index of FAISS", "ann"):
        import faiss
    return faiss


def _loaded(about: Mapping[str, str]) -> Any:
    return np.int64 if about["ids"] == "int" else object


NPZ = Format(".npz", _save_npz, _load_npz)
SAFETENSORS = Format(".safetensors", _save_safetensors, _load_safetensors)
PARQUET = Format(".parquet", _save_parquet, _load_parquet)
CSV = Format(".csv", _save_csv, _load_csv)
FAISS = Format(".faiss", _save_faiss, _load_faiss, _faiss_ids)

FORMATS: dict[str, tuple[Format, Format]] = {
    "safetensors": (SAFETENSORS, SAFETENSORS),
    "npz": (NPZ, NPZ),
    "parquet": (PARQUET, PARQUET),
    "csv": (CSV, CSV),
    "faiss": (NPZ, FAISS),
}
"""Name -> formats of user vectors and of item vectors; only items are searched, so only they get an index."""
