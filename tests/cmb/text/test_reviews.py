"""Aspects and sentiment from review text, on sentences whose right answer is plain and on a judged list."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path

import polars as pl
import pytest

from recprism.cmb.text._clauses import Run, clauses
from recprism.cmb.text._generic import GENERIC
from recprism.cmb.text._packages import parser
from recprism.cmb.text._sentiment import ClauseSentiment
from recprism.cmb.text.aspects import AspectSettings, Evidence, aspects_in
from recprism.cmb.text.reviews import extract_features, read_reviews
from recprism.errors import InputError, MissingDependencyError

REVIEW = {
    "reviewerID": "U1",
    "asin": "B1",
    "overall": 5.0,
    "unixReviewTime": 100,
    "summary": "Great",
    "reviewText": "The strings sound great, but the battery is terrible. I love the bright tone.",
}
SMALL = AspectSettings(min_mentions=2, max_share=1.0, min_opinion=0.2)


def write_lines(path: Path, *rows: object) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def reviews_of(*texts: str) -> pl.DataFrame:
    rows = [(f"u{number}", f"i{number % 3}", text) for number, text in enumerate(texts)]
    return pl.DataFrame(rows, schema=["user_id", "item_id", "text"], orient="row")


@pytest.mark.parametrize("name", ["r.json", "r.json.gz"])
def test_reviews_are_read(name: str, tmp_path: Path) -> None:
    frame = read_reviews(write_lines(tmp_path / name, REVIEW, "", {**REVIEW, "summary": None, "reviewText": "Fine."}))
    assert frame["user_id"].to_list() == ["U1", "U1"]
    assert frame["text"][0].startswith("Great. The strings")
    assert frame["text"][1] == ". Fine."
    assert frame["timestamp"].to_list() == [100, 100]


BAD: dict[str, tuple[list[object], str]] = {
    "broken JSON": ([REVIEW, '{"reviewerID": '], r"r\.json, row 2: not JSON"),
    "no object": ([REVIEW, REVIEW, "[1, 2]"], r"r\.json, row 3: not a JSON object"),
    "missing field": (
        [{name: value for name, value in REVIEW.items() if name != "reviewText"}],
        r"r\.json, row 1: no field 'reviewText'; is it an Amazon review file\?",
    ),
    "time in words": (
        [{**REVIEW, "unixReviewTime": "May"}],
        r"r\.json, row 1: overall or unixReviewTime is not a number",
    ),
    "empty user": ([{**REVIEW, "reviewerID": ""}], r"r\.json, row 1: reviewerID or asin is empty"),
    "empty file": ([""], r"r\.json: the file is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_reviews_get_one_sentence(case: str, tmp_path: Path) -> None:
    rows, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        read_reviews(write_lines(tmp_path / "r.json", *rows))
    assert "\n" not in str(caught.value)


def test_a_clause_ends_at_but() -> None:
    first, second = clauses("The strings don't sound great but my amp's tone is lovely")
    assert first.text == "The strings do not sound great"
    assert [run.words for run in second.runs] == [("amp",), ("tone",)]
    assert all(run.in_place for run in second.runs)


def test_a_verb_taken_for_a_noun_is_out_of_place() -> None:
    runs = [run for clause in clauses("It works daily. I use it.") for run in clause.runs]
    assert not any(run.in_place for run in runs)


def test_the_longest_phrase_counts_once() -> None:
    run = Run(("guitar", "sound", "quality", "price"), (False,) * 4, True)
    assert aspects_in(run, {"sound quality", "sound", "quality", "price"}) == ["sound quality", "price"]


def test_negation_turns_praise_into_blame() -> None:
    sentiment = ClauseSentiment(["noise", "tone"])
    assert sentiment("the tone is great") > 0 > sentiment("the tone is not great")
    assert sentiment("the tone is very great") > sentiment("the tone is great")
    assert sentiment("the tone is terrible") < 0
    assert sentiment("it has noise") == 0 > ClauseSentiment([])("it has problems")


def test_brands_verbs_and_generic_nouns_are_no_aspects() -> None:
    texts = [f"The tone is great. My Zorgo is a good thing, number {number}. It works great." for number in range(6)]
    evidence = Evidence()
    for text in texts:
        evidence.add_review(clauses(text), {"great", "good"})
    assert evidence.choose(SMALL) == ["tone"]
    assert evidence.mentions["zorgo"] == 6
    assert {"thing", "year", "amazon"} <= GENERIC


def test_what_every_review_is_about_is_no_feature() -> None:
    reviews = reviews_of(*["The guitar has a great tone."] * 3, *["The guitar has a great neck."] * 7)
    found = extract_features(reviews, AspectSettings(min_mentions=2, max_share=0.7))
    assert found.features["feature"].to_list() == ["neck", "tone"]


def test_mentions_and_their_sentiment() -> None:
    seen = []
    reviews = reviews_of(*["The strings sound great, but the battery is terrible. I love the bright tone."] * 4)
    found = extract_features(reviews, SMALL, on_step=lambda _what, done, total: seen.append((done, total)))
    assert seen[-1] == (4, 4)
    assert found.mentions.columns == ["user_id", "item_id", "feature", "sentiment"]
    mean = dict(found.mentions.group_by("feature").agg(pl.col("sentiment").mean()).iter_rows())
    assert mean["battery"] < 0 < mean["tone"]
    rows = {row["feature"]: row for row in found.features.to_dicts()}
    assert rows["battery"]["positive"] == 0
    assert rows["tone"] == {
        "feature": "tone",
        "mentions": 4,
        "reviews": 4,
        "positive": 1.0,
        "example": "I love the bright tone",
    }


def test_reviews_without_aspects_are_refused() -> None:
    with pytest.raises(InputError, match="no aspect was found in 2 reviews"):
        extract_features(reviews_of("...", "!!!"))


@pytest.mark.parametrize("change", [{"top": 0}, {"max_share": 2.0}, {"min_mentions": 1.5}])
def test_settings_are_checked(change: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        AspectSettings(**change)  # type: ignore[arg-type]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    parser.cache_clear()
    monkeypatch.setitem(sys.modules, "textblob.en", None)
    with pytest.raises(MissingDependencyError, match=r"needs textblob, .*pip install 'recprism\[text\]'"):
        clauses("A sentence.")


def test_top_aspects_of_the_musical_instruments_are_judged_features(real_data: Path) -> None:
    """judged_aspects.md says how the list was judged, before there was an extractor. Unjudged counts as wrong."""
    path = real_data / "reviews_Musical_Instruments_5.json.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} under {real_data}: the judged list is not tried")
    with (Path(__file__).parent / "judged_aspects.csv").open(encoding="utf-8") as file:
        judged = {row["phrase"] for row in csv.DictReader(file) if row["is_feature"] == "yes"}
    top = extract_features(read_reviews(path)).features["feature"][:50].to_list()
    assert len(top) == 50
    assert sum(aspect in judged for aspect in top) / 50 >= 0.7
