"""Tables from files: one reader per format, all giving a polars frame whose ids are not yet interpreted."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import polars as pl

from recprism.data.files import readable
from recprism.data.sources import read_bytes
from recprism.errors import InputError

Reader = Callable[[bytes, str], pl.DataFrame]


def read_table(path: str | Path) -> pl.DataFrame:
    """Read .csv, .tsv, .txt (tabs), .inter and .item (RecBole), each plain or .gz, or .parquet."""
    path = Path(path)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in READERS:
        raise InputError(f"{path}: unknown kind of file {suffix or '(no ending)'!r}; use one of {', '.join(READERS)}")
    content = read_bytes(path)
    if not content.strip():
        raise InputError(f"{path}: the file is empty; a header and at least one row are needed")
    frame = READERS[suffix.lower()](content, str(path))
    if frame.is_empty():
        raise InputError(f"{path}: has a header but no rows; at least one row is needed")
    return frame


def read_delimited(
    content: bytes,
    where: str,
    *,
    separator: str = ",",
    header: tuple[str, ...] | None = None,
    columns: list[int] | None = None,
    quote: str | None = '"',
) -> pl.DataFrame:
    """Text with one row per line; every column stays text, so that ids such as 007 survive.

    header: column names where the file has no header row
    columns: positions to read, where not all are wanted
    """
    _require_utf8(content, where)
    try:
        frame = pl.read_csv(
            content,
            separator=separator,
            has_header=header is None,
            columns=columns,
            quote_char=quote,
            infer_schema=False,
            glob=False,
        )
    except pl.exceptions.NoDataError:
        raise InputError(f"{where}: the file is empty; a header and at least one row are needed") from None
    except pl.exceptions.PolarsError as problem:
        raise _ragged(content, where, separator, quote) or InputError(
            f"{where}: cannot be read as a table ({str(problem).splitlines()[0]}); check separator and quotes"
        ) from None
    if header is None:
        _require_distinct_header(frame, where)
    elif frame.width != len(header):
        raise InputError(f"{where}: {frame.width} columns where {len(header)} are needed ({', '.join(header)})")
    else:
        frame.columns = list(header)
    # A blank line is read as a row of nulls: it is no row. The true row number stays for later messages.
    return frame.with_row_index(ROW, offset=1 if header else 2).filter(~pl.all_horizontal(pl.exclude(ROW).is_null()))


ROW = "__row__"  # the file's own row numbers, counted from 1 with the header; dropped when the table is interpreted


def read_recbole(content: bytes, where: str) -> pl.DataFrame:
    """RecBole's atomic files: tabs, and a type behind each column name, as in ``item_id:token``."""
    frame = read_delimited(content, where, separator="\t", quote=None)
    untyped = [name for name in frame.columns if name != ROW and ":" not in name]
    if untyped:
        raise InputError(f"{where}: column {untyped[0]!r} has no type; RecBole headers look like item_id:token")
    names = [name.partition(":")[0] for name in frame.columns if name != ROW]
    twice = [name for name in names if names.count(name) > 1 or name == ROW]
    if twice:
        raise InputError(f"{where}: column {twice[0]!r} stands twice in the header")
    return frame.rename(dict(zip((name for name in frame.columns if name != ROW), names, strict=True)))


def read_parquet(content: bytes, where: str) -> pl.DataFrame:
    with readable(where, "not a Parquet file, or damaged", "write it again"):
        return pl.read_parquet(io.BytesIO(content)).with_row_index(ROW, offset=1)


def _read_csv(content: bytes, where: str) -> pl.DataFrame:
    return read_delimited(content, where)


def _read_tsv(content: bytes, where: str) -> pl.DataFrame:
    return read_delimited(content, where, separator="\t")


READERS: dict[str, Reader] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".txt": _read_tsv,
    ".inter": read_recbole,
    ".item": read_recbole,
    ".parquet": read_parquet,
}


def _require_utf8(content: bytes, where: str) -> None:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as problem:
        row = content.count(b"\n", 0, problem.start) + 1
        raise InputError(
            f"{where}, row {row}: not UTF-8 text (byte {content[problem.start]:#04x}); convert the file with iconv"
        ) from None


def _require_distinct_header(frame: pl.DataFrame, where: str) -> None:
    doubled = [name for name in frame.columns if name.endswith("_duplicated_0")]
    if doubled:
        raise InputError(f"{where}: column {doubled[0].removesuffix('_duplicated_0')!r} stands twice in the header")
    if ROW in frame.columns:
        raise InputError(f"{where}: a column is named {ROW!r}, which counts rows here; give it another name")


def _ragged(content: bytes, where: str, separator: str, quote: str | None) -> InputError | None:
    """Find the first row with more fields than the header: slow, and only on the way to an error."""
    text = io.StringIO(content.decode("utf-8"), newline="")
    reader = csv.reader(text, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE)
    try:
        width = len(next(reader))
        for fields in reader:
            if len(fields) > width:
                return InputError(
                    f"{where}, row {reader.line_num}: {len(fields)} fields where the header has {width}; mend it"
                )
    except (csv.Error, StopIteration):
        return None
    return None
