"""Which metric orders lists of films as people do, who rated how diverse they are?

    python benchmarks/perceived.py [--films FILE] [--seeds 3] [--draws 2000] [--json]

The ratings (1 to 5) are those of Jesse, Bauer and Jannach (2023), from the public repository ladychb/ils_study
(CC-BY-NC): one row per participant and list, with the columns study, participant, films and diversity. The file is not
part of recprism; put it as ils_study_films.csv into the folder RECPRISM_DATA. Films are matched by title to
ml-latest-small, whose genres are the categories; item vectors are those of BPRMF, means over seeds.

A set is a list whatever its order: a metric's value and the mean rating are means over the orders of a set. "rank
correlation" is Spearman's over sets. "pairs" is the share of the pairs of sets that one participant rated differently
and that the metric orders as the participant does (ties count half): it needs no common scale of participants. Both
intervals (95 %) draw the sets and the participants again. With eight sets, a rank correlation below 0.74 cannot be
distinguished from 0. "novelty" and the span of years are controls: they measure no diversity of genres or vectors. Half
a minute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import rankdata

from harness import Claim, parser, report
from recprism.data import Dataset, load_dataset
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF

FILE = "ils_study_films.csv"
EVERYTHING = {"threshold": None, "min_user": 1, "min_item": 1}
METRICS = (
    *("subtopic_coverage", "subtopic_coverage_shared", "subtopic_entropy", "alpha_ndcg"),
    *("ilad_subtopics", "min_ild_subtopics", "ilad", "min_ild", "novelty"),
)
REPAIRS = {"star wars": "star wars episode iv a new hope"}
"""Titles of the study that MovieLens knows by another name, as :func:`plain` writes them."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """Ratings of sets of films.

    Attributes:
        orders: The lists of each set: the same films in one or more orders.
        ratings: ``(participants, sets)`` mean rating that a participant gave to the set; NaN for a set not rated.
        n_ratings: Number of ratings.
    """

    orders: tuple[tuple[tuple[str, ...], ...], ...]
    ratings: Values
    n_ratings: int


def plain(title: str) -> str:
    """Return a title in small letters and digits, without its year, with its article in front."""
    title = re.sub(r"\s*\(\d{4}\)\s*$", "", title).strip()
    title = re.sub(r"^(.*), (The|A|An)$", r"\2 \1", title)
    return " ".join(re.findall(r"[a-z0-9]+", re.sub("['\u2019]", "", title.lower())))


def names_of(title: str) -> set[str]:
    """Return the names of a MovieLens title: the title, those in brackets, and what follows "Episode V - "."""
    without_year = re.sub(r"\s*\(\d{4}\)\s*$", "", title)
    others = [re.sub(r"^a\.k\.a\. ", "", it) for it in re.findall(r"\(([^)]*)\)", without_year)]
    main = re.sub(r"\s*\([^)]*\)", "", without_year)
    episode = re.sub(r"^.*Episode [IVX]+ - ", "", main)
    return {plain(it) for it in (main, episode, *others)} - {""}


def films_of(joined: str) -> tuple[str, ...]:
    """Return the films of a list; "Part 1" after a separator belongs to the title before it."""
    films: list[str] = []
    for piece in joined.split("|"):
        if re.fullmatch(r"Part \d+", piece) and films:
            films[-1] += f", {piece}"
        else:
            films.append(piece)
    return tuple(plain(film) for film in films)


def read_study(table: pl.DataFrame) -> Study:
    """Group the lists by their films."""
    lists = [films_of(joined) for joined in table["films"]]
    sets = sorted({tuple(sorted(films)) for films in lists})
    row_of = {who: row for row, who in enumerate(sorted(set(zip(table["study"], table["participant"], strict=True))))}
    sums, counts = np.zeros((len(row_of), len(sets))), np.zeros((len(row_of), len(sets)))
    for study, participant, films, rating in zip(
        table["study"], table["participant"], lists, table["diversity"], strict=True
    ):
        at = row_of[study, participant], sets.index(tuple(sorted(films)))
        sums[at] += rating
        counts[at] += 1
    orders = tuple(tuple(sorted({it for it in lists if tuple(sorted(it)) == films})) for films in sets)
    with np.errstate(invalid="ignore"):
        return Study(orders, sums / counts, len(lists))


def match(films: set[str], titles: Sequence[str], popularity: NDArray[np.int64]) -> dict[str, int]:
    """Return the row of each film that MovieLens has; of several with one name, the one with most ratings."""
    rows: dict[str, list[int]] = {}
    for row, title in enumerate(titles):
        for name in names_of(title):
            rows.setdefault(name, []).append(row)
    found = {film: rows.get(REPAIRS.get(film, film), []) for film in films}
    return {film: max(them, key=lambda row: popularity[row]) for film, them in found.items() if them}


def values_of(study: Study, row_of: Mapping[str, int], data: Dataset, seeds: int) -> dict[str, Values]:
    """Return ``(n_sets,)`` values of each metric: means over the orders of a set, and over seeds of the training."""
    lists = [(number, films) for number, orders in enumerate(study.orders) for films in orders]
    items = np.array([[row_of[film] for film in films] for _, films in lists])
    split = data.split(seed=0)
    names = [f"{name}@{items.shape[1]}" for name in METRICS]
    popularity = np.bincount(data.interactions.item, minlength=len(data.attributes))
    by_seed = []
    for seed in range(seeds):
        vectors = BPRMF().fit(split, seed=seed, device="cpu").item
        context = Context(categories=data.categories, vectors=vectors, popularity=popularity)
        by_seed.append(evaluate(items, context, names, bootstrap=0))
    owner = np.array([number for number, _ in lists])
    made = {
        name: np.mean([scores.values[f"{name}@{items.shape[1]}"] for scores in by_seed], axis=0) for name in METRICS
    }
    years = data.attributes["year"].to_numpy()[items]
    made["span of years"] = (years.max(1) - years.min(1)).astype(float)
    return {
        name: np.array([each[owner == number].mean() for number in range(len(study.orders))])
        for name, each in made.items()
    }


def rank_correlation(one: Values, other: Values) -> Values:
    """Spearman's correlation along the last axis; NaN where all values of one side are equal."""
    ranks = [rankdata(it, axis=-1) for it in np.broadcast_arrays(one, other)]
    first, second = (it - it.mean(-1, keepdims=True) for it in ranks)
    with np.errstate(invalid="ignore"):
        return np.asarray((first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1)))


def agreement(values: Values, ratings: Values, raters: Values, sets: Values) -> Values:
    """Share of the pairs of sets that participants rated differently and that the metric orders as they do.

    Args:
        values: ``(n_sets,)`` values of the metric.
        ratings: ``(participants, n_sets)`` ratings.
        raters: ``(draws, participants)`` how often each participant is drawn.
        sets: ``(draws, n_sets)`` how often each set is drawn.
    """
    first, second = np.array(list(combinations(range(len(values)), 2))).T
    with np.errstate(invalid="ignore"):
        gaps = ratings[:, first] - ratings[:, second]
        more, less = raters @ (gaps > 0), raters @ (gaps < 0)
    weights = sets[:, first] * sets[:, second]
    right = np.where(values[first] > values[second], more, np.where(values[first] < values[second], less, 0.0))
    right = np.where(values[first] == values[second], (more + less) / 2, right)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights * right).sum(-1) / (weights * (more + less)).sum(-1))


def compare(values: Values, study: Study, draws: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Rank correlation with the mean ratings, and agreement by pairs, each with its interval."""
    n_participants, n_sets = study.ratings.shape
    generator = np.random.default_rng(0)
    raters = generator.multinomial(n_participants, np.full(n_participants, 1 / n_participants), draws).astype(float)
    drawn = generator.integers(n_sets, size=(draws, n_sets))
    raters = np.vstack([np.ones(n_participants), raters])
    drawn = np.vstack([np.arange(n_sets), drawn])
    rated = np.isfinite(study.ratings)
    means = (raters @ np.where(rated, study.ratings, 0.0)) / (raters @ rated)
    correlations = rank_correlation(values[drawn], np.take_along_axis(means, drawn, 1))
    times = np.stack([np.bincount(it, minlength=n_sets) for it in drawn]).astype(float)
    return _with_interval(correlations), _with_interval(agreement(values, study.ratings, raters, times))


def _with_interval(drawn: Values) -> tuple[float, ...]:
    """The value of the data, which is the first, then the interval of the draws."""
    return float(drawn[0]), *map(float, np.nanpercentile(drawn[1:], (2.5, 97.5)))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--films", type=Path, default=Path(os.environ.get("RECPRISM_DATA", ".")) / FILE)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--draws", type=int, default=2000)
    chosen = options.parse_args()
    if not chosen.films.exists():
        options.error(f"{chosen.films} does not exist; put {FILE} into the folder RECPRISM_DATA, or pass --films")
    study = read_study(pl.read_csv(chosen.films))
    data = load_dataset("ml-latest-small", **EVERYTHING)
    films = {film for orders in study.orders for film in orders[0]}
    titles = data.attributes["title"].to_list()
    row_of = match(films, titles, np.bincount(data.interactions.item, minlength=len(titles)))
    if films - row_of.keys():
        options.error(f"no film of MovieLens has the title: {', '.join(sorted(films - row_of.keys()))}")
    values = values_of(study, row_of, data, chosen.seeds)
    means = np.nanmean(study.ratings, axis=0)
    least = int(means.argmin())
    rows = []
    for name, each in values.items():
        whole, pairs = compare(each, study, chosen.draws)
        others = rank_correlation(np.delete(each, least), np.delete(means, least))
        rows.append((name, whole, float(others), pairs))
    rows.sort(key=lambda row: -row[1][0])
    header = ["metric", "rank correlation", "without the set rated lowest", "pairs ordered as participants do"]
    table = [[n, _shown(c, "+.2f"), f"{o:+.2f}", _shown(p, ".0%")] for n, c, o, p in rows]
    claims = [
        Claim("films matched to MovieLens", f"{len(row_of)} of {len(films)}", None),
        Claim("ratings, participants", f"{study.n_ratings}, {len(study.ratings)}", None),
        Claim("sets of films, lists with their orders", f"{len(study.orders)}, {sum(map(len, study.orders))}", None),
        Claim("mean rating of the sets, lowest to highest", " ".join(f"{it:.2f}" for it in sorted(means)), None),
    ]
    if not chosen.json:
        print("\n".join("| " + " | ".join(row) + " |" for row in (header, *table)), end="\n\n")
    report(claims, as_json=chosen.json, packages=("scipy",), details={"table": [header, *table]})


def _shown(figure: tuple[float, ...], form: str) -> str:
    value, low, high = (format(it, form) for it in figure)
    return f"{value} ({low} .. {high})"


if __name__ == "__main__":
    main()
