"""Tables from files, one reader per format. Ids are not interpreted yet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import polars as pl

from recprism.common.files import readable
from recprism.common.ids import show_names
from recprism.data.readers.json_lines import json_objects
from recprism.data.readers.sources import read_bytes
from recprism.errors import InputError

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}
PACKED = (".gz", ".zst", ".zstd")
RECBOLE = (".inter", ".item")
SAMPLED_ROWS = 200
ROW = "__row__"  # row numbers of the file, from 1 with the header; dropped when the table is interpreted


def read_table(
    path: str | Path, columns: Mapping[str, str] | None = None, *, required: Sequence[str] = ()
) -> pl.DataFrame:
    """Read a table of text, Parquet or JSON, plain or compressed.

    The content decides the format: gzip, zstd, Parquet, JSON (lines or one array of objects) or text. For text it also
    decides the delimiter (comma, tab, semicolon or pipe) and the encoding, if there is a byte-order mark. RecBole's
    .inter and .item files are recognised by their ending.

    Args:
        path: The file.
        columns: Our name -> the name in the file; the table has our names.
        required: Our names that the table must have.

    Returns:
        The table; text columns stay text, so that ids such as 007 are kept.

    Raises:
        InputError: The file cannot be read, or a column is missing; the message shows what was found.
    """
    reader = TableReader(columns or {})
    frame = reader.read(path, required=required)
    reader.require_used()
    return frame


@dataclass
class TableReader:
    """Reads several files with one map of column names; each file has some of the names.

    Attributes:
        columns: Our name -> the name in the files.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _seen: list[str] = field(default_factory=list)

    def read(self, path: str | Path, *, required: Sequence[str] = ()) -> pl.DataFrame:
        """Read one file; see :func:`read_table`."""
        path = Path(path)
        content = read_bytes(path)
        if not content.strip():
            raise InputError(f"{path}: the file is empty; a header and at least one row are needed")
        frame, how = _read_content(content, path)
        if frame.is_empty():
            raise InputError(f"{path}: has a header but no rows; at least one row is needed")
        header = [name for name in frame.columns if name != ROW]
        self._seen.append(f"{path} ({how}) has {show_names(header)}")
        frame = self._renamed(frame)
        missing = [name for name in required if name not in frame.columns]
        if missing:
            wanted = " or ".join(repr(self.columns.get(name, name)) for name in missing)
            options = " ".join(f"--column {name}=NAME" for name in missing)
            raise InputError(
                f"{path}: no column {wanted}; the columns are {show_names(header)} ({how}); map yours to "
                f"{'it' if len(missing) == 1 else 'them'} ({options})"
            )
        return frame

    def require_used(self) -> None:
        """Raise an error for a mapped name that no file had; call it after the last file."""
        unused = [name for name in self.columns if name not in self._used]
        if unused:
            name = unused[0]
            raise InputError(
                f"--column {name}={self.columns[name]}: no file has a column {self.columns[name]!r}; "
                f"{'; '.join(self._seen) or 'no file was read'}"
            )

    def _renamed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rename columns; a column that another one replaces is kept as ``NAME_original``."""
        names = {theirs: ours for ours, theirs in self.columns.items() if theirs in frame.columns}
        self._used.update(names.values())
        replaced = {ours: f"{ours}_original" for ours in names.values() if ours in frame.columns and ours not in names}
        taken = [kept for kept in replaced.values() if kept in frame.columns]
        return frame.drop(taken).rename({**replaced, **names})


def _read_content(content: bytes, path: Path) -> tuple[pl.DataFrame, str]:
    """Return the table, and how it was read, in words."""
    where = str(path)
    ending = _ending(path)
    if content.startswith(b"PAR1") or ending == ".parquet":
        return read_parquet(content, where), "Parquet"
    if content.startswith(b"PK\x03\x04"):
        raise InputError(f"{where}: a zip archive or a spreadsheet; unpack it, or save the sheet as CSV or Parquet")
    content = _utf8(content)
    if ending in RECBOLE:
        return read_recbole(content, where), "RecBole, tab between columns"
    if content.lstrip()[:1] == b"{" or (content.lstrip()[:1] == b"[" and ending in (".json", ".jsonl")):
        return read_json(content, where), "JSON"
    _require_utf8(content, where)
    usual = "\t" if ending in (".tsv", ".txt") else ","
    delimiter = _guess_delimiter(content, usual)
    how = "no comma, tab, semicolon or pipe found" if delimiter is None else f"{DELIMITERS[delimiter]} between columns"
    return read_delimited(content, where, separator=delimiter or usual), how


def _ending(path: Path) -> str:
    """Return the ending in lower case, without .gz or .zst."""
    return (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()


def _utf8(content: bytes) -> bytes:
    """Remove a byte-order mark; UTF-16, which always has one, becomes UTF-8."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace").encode()
    return content.removeprefix(b"\xef\xbb\xbf")


def _guess_delimiter(content: bytes, usual: str) -> str | None:
    """Find the delimiter that gives the header and most of the first rows the same number of fields.

    Args:
        content: The file.
        usual: The delimiter to prefer among equals.

    Returns:
        The delimiter; None if there is a single column.
    """
    sample = content[: 1 << 20].decode("utf-8", errors="ignore")

    def fit(delimiter: str) -> tuple[float, int, bool]:
        rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        try:
            widths = [len(row) for row in islice(rows, SAMPLED_ROWS) if row]
        except csv.Error:
            return 0.0, 0, False
        if not widths or widths[0] < 2:
            return 0.0, 0, False
        return sum(width == widths[0] for width in widths) / len(widths), widths[0], delimiter == usual

    fits = {delimiter: fit(delimiter) for delimiter in DELIMITERS}
    best = max(DELIMITERS, key=lambda delimiter: fits[delimiter])
    return best if fits[best][1] else None


def read_delimited(
    content: bytes,
    where: str,
    *,
    separator: str = ",",
    header: tuple[str, ...] | None = None,
    columns: list[int] | None = None,
    quote: str | None = '"',
) -> pl.DataFrame:
    """Read text with one row per line; every column stays text, so that ids such as 007 are kept.

    Args:
        content: The file.
        where: What errors call the file.
        separator: The text between two fields.
        header: Column names, if the file has no header row.
        columns: Positions of the columns to read; None reads all.
        quote: The quotation mark, or None.
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
    # polars reads a blank line as a row of nulls. Row numbers are assigned before such rows are dropped.
    return frame.with_row_index(ROW, offset=1 if header else 2).filter(~pl.all_horizontal(pl.exclude(ROW).is_null()))


def read_recbole(content: bytes, where: str) -> pl.DataFrame:
    """Read RecBole's atomic files: tabs, and a type after each column name, as in ``item_id:token``."""
    frame = read_delimited(content, where, separator="\t", quote=None)
    untyped = [name for name in frame.columns if name != ROW and ":" not in name]
    if untyped:
        raise InputError(f"{where}: column {untyped[0]!r} has no type; RecBole headers look like item_id:token")
    names = [name.partition(":")[0] for name in frame.columns if name != ROW]
    twice = [name for name in names if names.count(name) > 1 or name == ROW]
    if twice:
        raise InputError(f"{where}: column {twice[0]!r} occurs twice in the header")
    return frame.rename(dict(zip((name for name in frame.columns if name != ROW), names, strict=True)))


def read_parquet(content: bytes, where: str) -> pl.DataFrame:
    with readable(where, "not a Parquet file, or damaged", "write it again"):
        return pl.read_parquet(io.BytesIO(content)).with_row_index(ROW, offset=1)


def read_json(content: bytes, where: str) -> pl.DataFrame:
    """Read one JSON object per line, or one array of objects; lists in it stay lists."""
    if content.lstrip()[:1] == b"[":
        with readable(where, "not a JSON array of objects", "write one array of objects, or one object a line"):
            rows = [(row, dict(value)) for row, value in enumerate(json.loads(content), start=1)]
    else:
        rows = list(json_objects(content, where))
    with readable(where, "rows of JSON that make no table", "give each column one kind of value"):
        return pl.DataFrame([{ROW: row, **value} for row, value in rows], infer_schema_length=None, strict=False)


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
        raise InputError(f"{where}: column {doubled[0].removesuffix('_duplicated_0')!r} occurs twice in the header")
    if ROW in frame.columns:
        raise InputError(f"{where}: a column is named {ROW!r}, which counts rows here; give it another name")


def _ragged(content: bytes, where: str, separator: str, quote: str | None) -> InputError | None:
    """Find the first row with more fields than the header. It is slow, and called only before an error."""
    text = io.StringIO(content.decode("utf-8"), newline="")
    reader = csv.reader(text, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE)
    try:
        width = len(next(reader))
        for fields in reader:
            if len(fields) > width:
                return InputError(
                    f"{where}, row {reader.line_num}: {len(fields)} fields where the header has {width}"
                    f" ({DELIMITERS.get(separator, repr(separator))} between columns); fix it"
                )
    except (csv.Error, StopIteration):
        return None
    return None
