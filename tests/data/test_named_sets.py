"""Loaders of published data sets, on small files of the same form, and on the real ones if present."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import polars as pl
import pytest

from recprism.data import Dataset, load_dataset
from recprism.data.datasets import NAMED, data_roots
from recprism.data.readers.amazon import frequent_categories
from recprism.data.readers.lastfm import frequent_tags
from recprism.errors import InputError

EVERYTHING = {"threshold": None, "min_user": 1, "min_item": 1}


def zip_folder(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as packed:
        for file in folder.iterdir():
            packed.write(file, f"{folder.name}/{file.name}")


@pytest.fixture
def ml10m(tmp_path: Path) -> Path:
    folder = tmp_path / "ml-10M100K"
    folder.mkdir()
    (folder / "ratings.dat").write_text("1::122::5::838985046\n1::185::4.5::838983525\n2::122::0.5::868246450\n")
    (folder / "movies.dat").write_text(
        "122::Boomerang (1992)::Comedy|Romance\n185::Léon: The Net (1995)::Action\n186::Unseen (1999)::War\n"
    )
    (folder / "tags.dat").write_text("1::185::sci::fi::1215184630\n2::185::Computers::1215184631\n")
    return tmp_path


@pytest.mark.parametrize("zipped", [False, True])
def test_ml10m_with_half_stars_and_tags(zipped: bool, ml10m: Path) -> None:
    root = ml10m
    if zipped:
        root = ml10m / "zipped"
        root.mkdir()
        zip_folder(ml10m / "ml-10M100K", root / "ml-10m.zip")
    data = load_dataset("ml-10m", data_root=root, **EVERYTHING)
    assert sorted(data.interactions.rating.tolist()) == [0.5, 4.5, 5.0]  # type: ignore[union-attr]
    assert data.attributes["title"].to_list() == ["Boomerang (1992)", "Léon: The Net (1995)"]
    assert data.attributes["year"].to_list() == [1992, 1995]
    assert data.attributes["tags"].to_list() == [None, "computers|sci::fi"]
    assert data.categories.names == ("Action", "Comedy", "Romance")


def test_ml1m_titles_in_latin_1(tmp_path: Path) -> None:
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text("1::73::5::978300760\n")
    (folder / "movies.dat").write_bytes("73::Misérables, Les (1995)::Drama|Musical\n".encode("latin-1"))
    data = load_dataset("ml-1m", data_root=tmp_path, **EVERYTHING)
    assert data.attributes["title"].to_list() == ["Misérables, Les (1995)"]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ("1::73::5\n", r"ratings\.dat, row 1: 4 fields apart by ::"),
        ("1::73::5::1\n1::74\n", r"ratings\.dat, row 2: rating is not a finite number"),
        ("", r"ratings\.dat: the file is empty"),
        ("1::73::5::1\n1::74::x::1\n", r"ratings\.dat, row 2: rating is not a finite number \('x'\)"),
    ],
)
def test_bad_ratings_dat(ratings: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text(ratings)
    (folder / "movies.dat").write_text("73::A (1995)::Drama\n")
    with pytest.raises(InputError, match=message):
        load_dataset("ml-1m", data_root=tmp_path, **EVERYTHING)


def test_bad_movies_dat_and_archives(tmp_path: Path) -> None:
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text("1::73::5::1\n")
    with pytest.raises(InputError, match=r"holds no movies\.dat"):
        load_dataset("ml-1m", data_root=tmp_path, **EVERYTHING)
    (folder / "movies.dat").write_text("73::A (1995)\n")
    with pytest.raises(InputError, match=r"movies\.dat, row 1: 2 fields"):
        load_dataset("ml-1m", data_root=tmp_path, **EVERYTHING)
    (tmp_path / "ml-1m.zip").write_bytes(b"PK not a zip")
    with pytest.raises(InputError, match=r"ml-1m\.zip: not a zip archive, or cut short"):
        load_dataset("ml-1m", data_root=tmp_path)


def review(user: str, item: str, stars: float) -> dict[str, object]:
    return {"reviewerID": user, "asin": item, "overall": stars, "unixReviewTime": 1393545600, "reviewText": "fine"}


REVIEWS = [review("A1", "B000000001", 5), review("A1", "B000000002", 4), review("A2", "B000000001", 2)]


@pytest.mark.parametrize("name", ["reviews_Toys_5.json", "Toys_5.json.gz", "reviews_Toys.json.gz", "Toys.json"])
def test_amazon_reviews(name: str, tmp_path: Path) -> None:
    text = "\n".join(json.dumps(entry) for entry in REVIEWS).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    data = load_dataset("amazon:Toys", data_root=tmp_path, **EVERYTHING)
    assert data.stats()["interactions"] == 3
    assert data.interactions.item_ids.tolist() == ["B000000001", "B000000002"]


@pytest.mark.parametrize(
    ("name", "line"),
    [("ratings_Toys.csv", "A1,B000000001,5.0,1393545600"), ("Toys.csv", "B000000001,A1,5.0,1393545600")],
    ids=["2014: user first", "2018: item first"],
)
def test_amazon_ratings_of_both_years(name: str, line: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"{line}\n")
    (tmp_path / "reviews_Other.json").write_text(json.dumps(REVIEWS[0]))
    data = load_dataset("amazon:Toys", data_root=tmp_path, **EVERYTHING)
    assert data.interactions.user_ids.tolist() == ["A1"]
    assert data.interactions.item_ids.tolist() == ["B000000001"]


def test_amazon_metadata_of_both_years(tmp_path: Path) -> None:
    text = "\n".join(json.dumps(entry) for entry in REVIEWS)
    (tmp_path / "reviews_Toys_5.json").write_text(text)
    old = "{'asin': 'B000000001', 'title': \"It's\", 'categories': [['Toys', 'Games'], ['Toys', 'Cards', 'Games']]}"
    new = json.dumps({"asin": "B000000002", "title": "New", "brand": "Acme", "category": ["Toys", "Cards"]})
    (tmp_path / "meta_Toys.json.gz").write_bytes(gzip.compress(f"{old}\n{new}\n".encode()))
    data = load_dataset("amazon", data_root=tmp_path, **EVERYTHING)
    assert data.categories.names == ("Cards", "Games"), "the department itself is no category"
    assert data.categories.items.row_counts.tolist() == [2, 1]
    assert data.attributes["title"].to_list() == ["It's", "New"]


def test_the_most_frequent_categories_become_categories() -> None:
    paths = {f"i{n}": [["Dept", *(f"c{c:02}" for c in range(40) if n >= c)]] for n in range(40)}
    kept = frequent_categories(paths)["category"].unique().sort().to_list()
    assert kept == [f"c{c:02}" for c in range(30)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"asin": "B000000001"}', r"row 1: no field 'reviewerID'"),
        ("\n[1, 2]\n", r"row 2: not a JSON object"),
        ("not json", r"row 1: not a JSON object"),
        (json.dumps({**REVIEWS[0], "overall": "many"}), r"row 1: overall or unixReviewTime is not a number"),
        ("", r"the file is empty"),
    ],
)
def test_bad_amazon_files(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "reviews_Toys.json").write_text(content)
    with pytest.raises(InputError, match=message):
        load_dataset("amazon:Toys", data_root=tmp_path)


def test_amazon_without_a_clear_category(tmp_path: Path) -> None:
    for category in ("Toys", "Games"):
        (tmp_path / f"reviews_{category}_5.json").write_text(json.dumps(REVIEWS[0]))
    with pytest.raises(InputError, match=r"found here: amazon:Games, amazon:Toys"):
        load_dataset("amazon", data_root=tmp_path)
    with pytest.raises(InputError, match="amazon:Books is not under"):
        load_dataset("amazon:Books", data_root=tmp_path)


@pytest.fixture
def lastfm(tmp_path: Path) -> Path:
    """Three users, four artists and three tags; the tag names are in Latin-1."""
    folder = tmp_path / "hetrec2011-lastfm-2k"
    folder.mkdir()
    (folder / "user_artists.dat").write_text(
        "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t1\n3\t51\t5\n4\t53\t9\n4\t54\t1\n"
    )
    (folder / "artists.dat").write_text(
        'id\tname\turl\tpictureURL\n51\tDuran "D" Duran\tu\tp\n52\tMorcheeba\tu\tp\n53\tAir\tu\t\n54\tSigur Rós\tu\tp\n'
    )
    (folder / "tags.dat").write_bytes("tagID\ttagValue\n1\tchanson française\n2\tpop\n3\trare\n".encode("latin-1"))
    given = ["2\t51\t2", "3\t51\t2", "2\t52\t2", "4\t52\t2", "2\t53\t1", "3\t53\t1", "4\t51\t3", "4\t54\t3"]
    lines = "".join(f"{line}\t1\t4\t2009\n" for line in given)
    (folder / "user_taggedartists.dat").write_text("userID\tartistID\ttagID\tday\tmonth\tyear\n" + lines)
    return tmp_path


@pytest.mark.parametrize("zipped", [False, True])
def test_lastfm_with_tags_that_two_users_gave(zipped: bool, lastfm: Path) -> None:
    root = lastfm
    if zipped:
        root = lastfm / "zipped"
        root.mkdir()
        zip_folder(lastfm / "hetrec2011-lastfm-2k", root / "hetrec2011-lastfm-2k.zip")
    data = load_dataset("hetrec2011-lastfm-2k", data_root=root, **EVERYTHING)
    assert data.interactions.item_ids.tolist() == [51, 52, 53, 54]
    assert len(data.interactions) == 5
    assert data.interactions.rating is None, "plays are no ratings"
    assert data.categories.names == ("chanson française", "pop"), "one user alone gave the tag 'rare'"
    assert data.categories.items.dense().tolist() == [[False, True], [False, True], [True, False], [False, False]]
    assert data.attributes["title"].to_list() == ['Duran "D" Duran', "Morcheeba", "Air", "Sigur Rós"]
    for method in ("leave-last", "user-temporal", "temporal"):
        with pytest.raises(InputError, match="there are no timestamps; map a timestamp column or split at random"):
            data.split(method)


def test_the_most_frequent_tags_become_categories() -> None:
    rows = [(user, f"a{artist}", f"t{tag:02}") for tag in range(5) for artist in range(5 - tag) for user in (1, 2)]
    given = pl.DataFrame(rows, schema=["userID", "artistID", "tagID"], orient="row")
    names = pl.DataFrame({"tagID": [f"t{tag:02}" for tag in range(5)], "tagValue": list("edcba")})
    assert frequent_tags(given, names, n=3)["category"].unique().sort().to_list() == ["c", "d", "e"]
    tied = frequent_tags(given.filter(pl.col("artistID") == "a0"), names, n=2)
    assert tied["category"].unique().sort().to_list() == ["a", "b"], "of equally frequent tags, the first by name"


def test_bad_lastfm_files(lastfm: Path) -> None:
    (lastfm / "hetrec2011-lastfm-2k" / "tags.dat").write_text("tagID\tname\n1\tpop\n")
    with pytest.raises(InputError, match=r"tags\.dat: no column 'tagValue'; get the data set again"):
        load_dataset("hetrec2011-lastfm-2k", data_root=lastfm)
    (lastfm / "hetrec2011-lastfm-2k" / "user_artists.dat").unlink()
    with pytest.raises(InputError, match=r"holds no user_artists\.dat"):
        load_dataset("hetrec2011-lastfm-2k", data_root=lastfm)


def test_unknown_and_missing_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECPRISM_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="unknown data set 'ml-2m'; known are ml-latest-small, ml-1m"):
        load_dataset("ml-2m")
    with pytest.raises(InputError, match=r"ml-1m is not under .*; run `recprism data fetch ml-1m`"):
        load_dataset("ml-1m")
    with pytest.raises(InputError, match="put its archive there"):
        load_dataset("amazon-cds-2014")
    with pytest.raises(InputError, match="unknown preset 'best'"):
        load_dataset("ml-latest-small", preset="best")


def test_order_of_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECPRISM_DATA", "from-env")
    monkeypatch.setenv("XDG_DATA_HOME", "home")
    assert data_roots("given") == [Path("given"), Path("from-env"), Path("home/recprism")]


def test_the_embedded_set(small: Dataset) -> None:
    raw = load_dataset("ml-latest-small", **EVERYTHING)
    assert len(raw.interactions) == 100_836
    assert raw.interactions.n_users == 610
    stats = small.stats()
    assert (stats["users"], stats["items"], stats["interactions"], stats["categories"]) == (601, 1955, 41_227, 19)
    assert small.attributes.filter(pl.col("item_id") == 1)["tags"].item() == "fun|pixar"


def test_the_embedded_set_is_the_published_one(
    real_data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    published = load_dataset("ml-latest-small", data_root=real_data, **EVERYTHING)
    monkeypatch.delenv("RECPRISM_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    embedded = load_dataset("ml-latest-small", **EVERYTHING)
    order = [(data.interactions.user * 10**6 + data.interactions.item).argsort() for data in (published, embedded)]
    for name in ("user", "item", "rating", "timestamp"):
        ours, theirs = getattr(embedded.interactions, name)[order[1]], getattr(published.interactions, name)[order[0]]
        assert (ours == theirs).all(), name
    assert embedded.attributes.equals(published.attributes)
    assert (embedded.categories.dense() == published.categories.dense()).all()


def test_ml1m_has_the_papers_counts(ml1m: Dataset) -> None:
    stats = ml1m.stats()
    assert (stats["users"], stats["items"], stats["interactions"], stats["categories"]) == (5950, 3125, 573_726, 18)


def test_real_amazon_files(real_data: Path) -> None:
    raw = load_dataset("amazon:Musical_Instruments", data_root=real_data, **EVERYTHING)
    assert (raw.interactions.n_users, raw.interactions.n_items, len(raw.interactions)) == (1429, 900, 10_261)
    cds = load_dataset("amazon-cds-2014", data_root=real_data, preset="paper").stats()
    assert (cds["users"], cds["items"], cds["interactions"], cds["categories"]) == (5821, 10_818, 151_583, 30)


def test_real_lastfm(real_data: Path) -> None:
    raw = load_dataset("hetrec2011-lastfm-2k", data_root=real_data, **EVERYTHING)
    assert (raw.interactions.n_users, raw.interactions.n_items, len(raw.interactions)) == (1892, 17_632, 92_834)
    stats = load_dataset("hetrec2011-lastfm-2k", data_root=real_data).stats()
    assert (stats["users"], stats["items"], stats["interactions"], stats["categories"]) == (1859, 2823, 71_355, 100)


def test_every_named_set_says_what_it_is() -> None:
    for known in NAMED.values():
        assert known.title
        assert known.licence
