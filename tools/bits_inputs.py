"""What tools/bits.py gives to commands and requests: little files, and requests in JSON values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

SENTENCES = (
    "The strings sound great and the neck is lovely.",
    "I love the neck, but the strings are terrible.",
    "The cable has awful noise. The plug is good.",
    "Great cable with a nice plug.",
)
PRICES = {"new users": 0.05}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "five": {"k": 5},
    "no reasons": {"reasons": False},
    "a price": {"price": 0.1},
    "a named price": {"price": "new users"},
    "dials": {"dials": {"Comedy": 0.2, "Drama": -0.1}},
    "entry prices": {"entry_prices": True},
    "unmet": {"constraints": {"min_items": {"Film-Noir": 10}}},
    "too late": {"time_limit": 0.0},
}
"""Options of requests that need no ids; those with ids are added for each user."""


def write_inputs(folder: Path) -> None:
    """Write reviews, tuples, attributes, and a little MovieLens on which the paper's tables take seconds."""
    reviews = [
        {
            "reviewerID": f"u{at}",
            "asin": f"i{at % 6}",
            "reviewText": f"{SENTENCES[at % 4]} {SENTENCES[at * 7 % 4]}",
            "summary": "",
            "overall": 1.0 + at % 5,
            "unixReviewTime": at,
        }
        for at in range(60)
    ]
    write_lines(folder / "reviews.json", [json.dumps(review) for review in reviews])
    words = ("tone", "neck", "cable", "plug", "noise", "case")
    told = [f"{at % 9},{at * 5 % 11},{words[at * at % 6]},{at % 3 - 1}" for at in range(80)]
    write_lines(folder / "tuples.csv", ["user,item,feature,sentiment", *told])
    described = [f"{at},{at * 37 % 50},{'abc'[at % 3]}|{'de'[at % 2]}" for at in range(30)]
    write_lines(folder / "attributes.csv", ["item_id,price,kind", *described])
    write_little_movielens(folder / "data" / "ml-1m")


def write_little_movielens(folder: Path) -> None:
    generator = np.random.default_rng(0)
    n_users, n_items, genres = 60, 80, ("Action", "Comedy", "Drama", "Horror", "Musical", "War")
    taste = generator.normal(size=(n_users, 4)) @ generator.normal(size=(4, n_items))
    best = np.argsort(-taste - generator.gumbel(size=taste.shape), axis=1)[:, :25]
    rated = [
        f"{user + 1}::{item + 1}::{5 - (place > 20)}::{place}"
        for user, of in enumerate(best)
        for place, item in enumerate(of)
    ]
    named = [f"{at + 1}::Film {at} (2000)::{genres[at % 6]}|{genres[at * at % 5]}" for at in range(n_items)]
    write_lines(folder / "ratings.dat", rated)
    write_lines(folder / "movies.dat", named)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def requests(folder: Path) -> dict[str, dict[str, Any]]:
    """Requests of three users, by name, in JSON values: candidates with scores, and every option."""
    items = pl.read_parquet(folder / "lists.parquet")["item_id"].unique().sort().to_list()
    found: dict[str, dict[str, Any]] = {}
    for user in range(3):
        generator = np.random.default_rng(user)
        order = [items[at] for at in generator.permutation(len(items)).tolist()]
        asked = {"candidates": order[:150], "scores": generator.random(150).tolist(), "history": [], "user": user}
        limits = {
            "banned": order[:2],
            "pinned": {"2": order[5]},
            "max_share": {"Drama": "40%"},
            "min_items": {"Comedy": 2},
        }
        more: dict[str, dict[str, Any]] = {
            "history": {"history": order[100:120]},
            "exclude": {"exclude": order[:10]},
            "constraints": {"constraints": limits},
            "everything": {"history": order[:20], "constraints": limits, "price": 0.3, "entry_prices": True, "k": 7},
        }
        found |= {f"{user} {name}": {**asked, **options} for name, options in {**OPTIONS, **more}.items()}
    return found


def vectors() -> dict[str, list[float]]:
    """User vectors, as long as those that are trained here."""
    return {f"user {user}": np.random.default_rng(user).normal(size=16).tolist() for user in range(3)}
