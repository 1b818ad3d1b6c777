"""Every bad file gets one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from recprism.data import load_files
from recprism.errors import InputError

GOOD = b"user_id,item_id,rating,timestamp\n1,10,4,100\n1,11,5,101\n2,10,3,102\n"
# GOOD, packed by zstd 1.5
ZSTD = bytes.fromhex(
    "28b52ffd0458cd010022440d13a0a5e9dbbecabb9545f0bf776bb659fa5f376135ac07"
    "5b1f55ebc3ed2db32e6cbd053825d31dcc8902b3a00d9273891b24e85220000d106013"
)


def cut_gzip(content: bytes) -> bytes:
    packed = gzip.compress(content * 50)
    return packed[: len(packed) // 2]


CASES: dict[str, tuple[str, bytes, str]] = {
    "missing column": (
        "a.csv",
        b"user_id,movie\n1,2\n",
        r"a\.csv: no column 'item_id'; the columns are user_id, movie \(comma between columns\); map yours to it",
    ),
    "NaN rating": ("a.csv", GOOD + b"3,12,nan,103\n", r"a\.csv, row 5: rating is not a finite number \('nan'\)"),
    "rating in words": ("a.csv", GOOD + b"3,12,good,103\n", r"a\.csv, row 5: rating is not a finite number \('good'\)"),
    "empty rating": ("a.csv", GOOD + b"3,12,,103\n", r"a\.csv, row 5: rating is not a finite number"),
    "empty id": ("a.csv", GOOD + b",12,3,103\n", r"a\.csv, row 5: user_id is empty"),
    "row too long": ("a.csv", GOOD + b"3,12,3,103,9,9\n", r"a\.csv, row 5: 6 fields where the header has 4"),
    "row too short": ("a.csv", GOOD + b"3\n", r"a\.csv, row 5: item_id is empty"),
    "wrong encoding": ("a.csv", GOOD + "é,12,3,1\n".encode("latin-1"), r"a\.csv, row 5: not UTF-8 text \(byte 0xe9\)"),
    "empty file": ("a.csv", b"", r"a\.csv: the file is empty"),
    "header only": ("a.csv", b"user_id,item_id\n", r"a\.csv: has a header but no rows"),
    "gzip cut short": ("a.csv.gz", cut_gzip(GOOD), r"a\.csv\.gz: gzip file is cut short or damaged"),
    "zstd cut short": ("a.csv.zst", ZSTD[:-5], r"a\.csv\.zst: zstd file is cut short, damaged"),
    "not Parquet": ("a.parquet", GOOD, r"a\.parquet: not a Parquet file"),
    "spreadsheet": ("a.xlsx", b"PK\x03\x04" + GOOD, r"a\.xlsx: a zip archive or a spreadsheet; unpack it, or save"),
    "no known delimiter": (
        "a.csv",
        b"user_id:item_id\n1:2\n",
        r"columns are user_id:item_id \(no comma, tab, semicolon or pipe",
    ),
    "doubled column": ("a.csv", b"user_id,item_id,item_id\n1,2,3\n", r"a\.csv: column 'item_id' occurs twice"),
    "unclosed quote": ("a.csv", GOOD + b'3,"12,3,103\n', r"a\.csv"),
    "inter without types": ("a.inter", b"user_id\titem_id\n1\t2\n", r"a\.inter: column 'user_id' has no type"),
    "inter with a column of two types": (
        "a.inter",
        b"user_id:token\titem_id:token\titem_id:float\n1\t2\t3\n",
        r"a\.inter: column 'item_id' occurs twice in the header",
    ),
    "column with a line break": ("a.csv", b'user_id,"it\nem"\n1,2\n', r"columns are user_id, 'it\\nem' \(comma"),
    "column named as ours": ("a.csv", b"user_id,item_id,__row__\n1,2,3\n", "a column is named '__row__'"),
    "binary": ("a.csv", bytes(range(256)), r"a\.csv, row \d+: not UTF-8"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_interactions(case: str, tmp_path: Path) -> None:
    name, content, message = CASES[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_files(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        load_files(tmp_path / "gone.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(InputError, match=r"dir\.csv: is a folder"):
        load_files(tmp_path / "dir.csv")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def put(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return put


def test_ids_that_clash_between_files(write: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(
        InputError, match=r"none of its item ids \(such as 'B0'\) is an item of the interactions \(such as 10\)"
    ):
        load_files(write("a.csv", GOOD), categories=write("s.csv", b"item_id,category\nB0,x\n"))


def test_errors_name_the_other_files(write: Callable[[str, bytes], Path]) -> None:
    interactions, other = write("a.csv", GOOD), write("other.csv", b"sku,genre\n10,x\n")
    with pytest.raises(InputError, match=r"other\.csv: no column 'item_id' or 'category'; the columns are sku, genre"):
        load_files(interactions, categories=other)
    with pytest.raises(InputError, match=r"other\.csv: no column 'item_id'; the columns are sku, genre"):
        load_files(interactions, items=other)
    categories = write("s.csv", b"item_id,category,weight\n10,x,much\n")
    with pytest.raises(InputError, match=r"s\.csv, row 2: weight is not a finite number"):
        load_files(interactions, categories=categories)


def test_an_item_with_two_rows(write: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match=r"item 10 occurs more than once with different values"):
        load_files(write("a.csv", GOOD), items=write("i.csv", b"item_id,title\n10,A\n10,B\n"))


def test_weights_that_are_negative(write: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match=r"a weight is negative \(-1\)"):
        load_files(write("a.csv", GOOD), categories=write("s.csv", b"item_id,category,weight\n10,x,-1\n"))
    with pytest.raises(InputError, match="row 2: weight is not a finite number"):
        load_files(write("a.csv", GOOD), categories=write("s.csv", b"item_id,category,weight\n10,x,much\n"))


def test_nothing_left(write: Callable[[str, bytes], Path]) -> None:
    from recprism.data import Preparation

    with pytest.raises(InputError, match="nothing is left of 3 interactions after ratings >= 9, at least 1 per user"):
        load_files(write("a.csv", GOOD), preparation=Preparation(threshold=9))


def test_a_category_column_needs_an_item_table(write: Callable[[str, bytes], Path]) -> None:
    with pytest.raises(InputError, match="name its file with --items"):
        load_files(write("a.csv", GOOD), category_column="genres")


def test_items_without_categories_are_allowed_and_counted(write: Callable[[str, bytes], Path]) -> None:
    data = load_files(write("a.csv", GOOD), categories=write("s.csv", b"item_id,category\n10,x\n99,y\n"))
    assert data.stats()["items_without_categories"] == 1
    assert data.categories.names == ("x",)
    assert data.stats()["users_with_one_interaction"] == 1
