"""Last.FM of HetRec 2011: users, the artists they listened to, and the tags they gave."""

from __future__ import annotations

import polars as pl

from recprism.data.dataset import Tables
from recprism.data.readers.sources import Source
from recprism.data.readers.tables import ROW, read_delimited
from recprism.errors import InputError

N_TAGS = 100
FEWEST_USERS = 2
HEADERS = {
    "user_artists.dat": ("userID", "artistID"),
    "artists.dat": ("id", "name"),
    "tags.dat": ("tagID", "tagValue"),
    "user_taggedartists.dat": ("userID", "artistID", "tagID"),
}


def load_hetrec(source: Source) -> Tables:
    """Load user_artists.dat, artists.dat, tags.dat and user_taggedartists.dat.

    Every row of user and artist is a positive: its weight counts plays and is no rating. There are no timestamps.
    """
    plays, artists = _read(source, "user_artists.dat"), _read(source, "artists.dat")
    return Tables(
        plays.select(ROW, user_id="userID", item_id="artistID"),
        frequent_tags(_read(source, "user_taggedartists.dat"), _read(source, "tags.dat")),
        artists.select(item_id="id", title="name"),
        source.where("user_artists.dat"),
    )


def frequent_tags(given: pl.DataFrame, tags: pl.DataFrame, n: int = N_TAGS) -> pl.DataFrame:
    """Return the n most frequent tags of artists as a long table item_id, category.

    An artist has a tag if at least two users gave it. Single opinions and misspelt tags are not categories.

    Args:
        given: The columns userID, artistID, tagID; one row per tag that a user gave an artist.
        tags: The columns tagID, tagValue.
        n: Number of tags.
    """
    agreed = (
        given.group_by("artistID", "tagID")
        .agg(pl.col("userID").n_unique().alias("users"))
        .filter(pl.col("users") >= FEWEST_USERS)
        .join(tags.select("tagID", "tagValue"), on="tagID")
        .select(item_id="artistID", category="tagValue")
        .unique()
    )
    most = agreed.group_by("category").len().sort(["len", "category"], descending=[True, False]).head(n)
    return agreed.join(most.select("category"), on="category", how="semi").sort("item_id", "category")


def _read(source: Source, name: str) -> pl.DataFrame:
    """Read fields separated by tabs under a header; tags.dat is in Latin-1."""
    content, where = source.read(name), source.where(name)
    if name == "tags.dat":
        content = content.decode("latin-1").encode()
    table = read_delimited(content, where, separator="\t", quote=None)
    missing = [column for column in HEADERS[name] if column not in table.columns]
    if missing:
        raise InputError(f"{where}: no column {missing[0]!r}; get the data set again")
    return table
