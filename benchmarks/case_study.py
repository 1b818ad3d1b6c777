"""The paper's case study on named features: on which of them does diversity depend?

    python benchmarks/case_study.py [--reviews reviews_Musical_Instruments_5.json.gz]
        [--phones reviews_Cell_Phones_sample.json.gz] -o docs/case_study/results.json

reviews -> features -> a feature-aware model -> CMB on the item-feature matrix, once per objective -> the features that
moved most (CMB-Shared), an item x feature heat map (CMB-Individual), and the controls that say whether the change of
features was learned at all. Everything is printed and kept as JSON; tools/case_study_docs.py makes a page of it.

The part --reviews has our settings. The part --phones has those of the paper: ratings from 4 up, scores from the raw
user and item feature matrices, the preset "paper", its four objectives and that of its heat map. A part that is not
asked for keeps the figures that the output file has.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from feature_model import FeatureModel
from recprism.cmb import CMB
from recprism.cmb.controls import permuted
from recprism.cmb.factors.checks import Question, run_checks
from recprism.cmb.factors.verdict import Verdict
from recprism.cmb.text.efm import item_quality, mentions_of_pairs, user_attention
from recprism.cmb.text.feature_folder import FeatureTables, tables_of_reviews
from recprism.data import Categories, Dataset, Preparation, Split
from recprism.data.dataset import Tables
from recprism.data.feature_matrix import FeatureMatrix
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors

GOALS = ("subtopic_coverage", "alpha_ndcg", "catalogue_coverage", "ilad")
HEAT_GOAL, HEAT_ITEMS, HEAT_FEATURES = "alpha_ndcg", 20, 15
DRAWS, SEEDS = 199, (0, 1, 2)

# (diversity, accuracy) -> the top-5 features that the paper reports.
PAPER_OBJECTIVES = {
    ("subtopic_coverage", "recall"): ("sound", "volume", "connector", "headphone", "protection"),
    ("subtopic_coverage", "ndcg"): ("charger", "button", "flashlight", "cable", "protection"),
    ("ilad", "recall"): ("connector", "volume", "pocket", "charger", "sound"),
    ("ilad", "ndcg"): ("port", "headset", "plug", "volume", "package"),
}
PAPER_HEAT = (HEAT_GOAL, "recall")
PAPER_SEEDS = range(5)
TOP = 5


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--reviews", type=Path, help="reviews for the part with our settings")
    options.add_argument("--phones", type=Path, help="reviews for the part with the settings of the paper")
    options.add_argument("-o", "--output", type=Path, default=Path("case_study.json"))
    words = options.parse_args()
    found = json.loads(words.output.read_text(encoding="utf-8")) if words.output.exists() else {}
    if words.reviews is not None:
        found |= our_part(words.reviews)
    if words.phones is not None:
        found |= paper_part(words.phones)
    words.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


def our_part(path: Path) -> dict[str, Any]:
    """The case study with a trained model and CMB's defaults."""
    found: dict[str, Any] = {}
    tables, found["extraction"] = extracted(path)
    data = dataset(tables, Preparation())
    clusters = tables.tables["clusters"].group_by("category", maintain_order=True).agg("feature")
    found["categories"] = {
        "clusters": clusters.to_dicts(),
        "per_item": len(data.categories.items) / len(data.categories.items.row_counts),
    }
    found["models"] = [compared_models(data.split(seed=seed), tables, seed) for seed in SEEDS]
    split = data.split(seed=0)
    features = training_features(tables, split)
    models = [FeatureModel().fit(split, features, seed=seed, device="cpu") for seed in SEEDS]
    found["objectives"] = {}
    for goal in GOALS:
        fitted = [CMB(goal, side="item", device="cpu").fit(model, split, data.categories) for model in models]
        found["objectives"][goal] = row = explained(fitted[0], fitted[1:], goal, split, data.categories, features.names)
        print(goal, json.dumps(row), flush=True)
        if goal == HEAT_GOAL:
            found["heat"] = heat_map(fitted[0], features.names, tables)
    return found


def paper_part(path: Path) -> dict[str, Any]:
    """The case study as the paper has it: raw features, preset "paper", five seeds of the search."""
    tables, about = extracted(path)
    data = dataset(tables, Preparation(threshold=4.0))
    split = data.split(seed=0)
    features = training_features(tables, split)
    base = raw_model(tables, split, features)
    found: dict[str, Any] = {
        "users": split.n_users,
        "items": split.n_items,
        "interactions": len(data.interactions),
        "test_interactions": len(split.test),
        "ndcg": {"raw features": metric(base, split, "ndcg"), "popularity": metric(popularity(split), split, "ndcg")},
        "objectives": [],
    }
    moved: dict[tuple[str, str], np.ndarray] = {}
    for goal, accuracy in (*PAPER_OBJECTIVES, PAPER_HEAT):
        asked = {"diversity": goal, "accuracy": accuracy, "device": "cpu"}
        fitted = [CMB.preset("paper", **asked, seed=seed).fit(base, split, data.categories) for seed in PAPER_SEEDS]
        moved[goal, accuracy] = np.stack([np.abs(item_change(model)).mean(0) for model in fitted])
        tops = [[features.names[at] for at in np.argsort(-it)[:TOP]] for it in moved[goal, accuracy]]
        row = explained(fitted[0], fitted[1:], goal, split, data.categories, features.names)
        row |= {"goal": goal, "accuracy": accuracy, "top_of_seeds": tops}
        row["paper"] = [
            {"feature": name, "extracted": name in features.names}
            for name in PAPER_OBJECTIVES.get((goal, accuracy), ())
        ]
        found["objectives"].append(row)
        print(goal, accuracy, json.dumps(row), flush=True)
        if (goal, accuracy) == PAPER_HEAT:
            found["heat"] = heat_map(fitted[0], features.names, tables)
    found["rank_correlation"] = seeds_or_objectives(np.stack(list(moved.values())))
    return {"phones": about, "paper": found}


def seeds_or_objectives(moved: np.ndarray) -> dict[str, list[float]]:
    """Rank correlations of ``moved``, (n_objectives, n_seeds, n_features): does the objective or the seed matter?

    Smallest, mean and largest over all pairs that share one of the two.
    """
    objectives, seeds, _ = moved.shape
    pairs = list(combinations(product(range(objectives), range(seeds)), 2))

    def over(chosen: list[tuple[tuple[int, int], tuple[int, int]]]) -> list[float]:
        values = [float(spearmanr(moved[one], moved[other]).statistic) for one, other in chosen]
        return [min(values), float(np.mean(values)), max(values)]

    return {
        "same objective, other seed": over([(one, other) for one, other in pairs if one[0] == other[0]]),
        "same seed, other objective": over([(one, other) for one, other in pairs if one[1] == other[1]]),
    }


def dataset(tables: FeatureTables, preparation: Preparation) -> Dataset:
    return Dataset.from_tables(
        "reviews", Tables(tables.tables["interactions"], tables.tables["categories"]), preparation
    )


def raw_model(tables: FeatureTables, split: Split, features: FeatureMatrix) -> Factors:
    """score = attention of the user . quality of the item, both from training reviews and scaled to at most 1."""
    attention = user_attention(training_mentions(tables, split), features.names).aligned(split.user_ids)
    user, item = (it / it.max() for it in (attention.values, features.aligned(split.item_ids).values))
    return Factors.from_arrays(user, item, user_ids=split.user_ids, item_ids=split.item_ids)


def popularity(split: Split) -> Factors:
    nothing = np.zeros((split.n_users, 1)), np.zeros((split.n_items, 1))
    ids = {"user_ids": split.user_ids, "item_ids": split.item_ids}
    return Factors.from_arrays(*nothing, item_bias=np.log1p(split.train.col_counts), **ids)


def extracted(path: Path) -> tuple[FeatureTables, dict[str, Any]]:
    began = time.perf_counter()
    tables = tables_of_reviews(path)
    about = {
        "file": path.name,
        "reviews": tables.tables["interactions"].height,
        "mentions": tables.tables["mentions"].height,
        "seconds": round(time.perf_counter() - began, 1),
        "top": tables.features.head(20).to_dicts(),
    }
    print(about["file"], about["seconds"], "seconds:", ", ".join(tables.features["feature"][:20]), flush=True)
    return tables, about


def training_features(tables: FeatureTables, split: Split) -> FeatureMatrix:
    """Item quality from the training reviews alone: a test review would tell who wrote it."""
    return item_quality(training_mentions(tables, split), tuple(sorted(tables.features["feature"])))


def training_mentions(tables: FeatureTables, split: Split) -> pl.DataFrame:
    pairs = split.user_ids[split.train.row_of_entry], split.item_ids[split.train.indices]
    return mentions_of_pairs(tables.tables["mentions"], *pairs)


def compared_models(split: Split, tables: FeatureTables, seed: int) -> dict[str, float]:
    """NDCG@10 on the test part, and validation for what completion is worth."""
    features = training_features(tables, split)
    ids = {"user_ids": split.user_ids, "item_ids": split.item_ids}
    noise = np.random.default_rng(seed)
    filled, plain = (FeatureModel(completion=it).fit(split, features, seed=seed, device="cpu") for it in (1.0, None))
    judged = {
        "random": Factors.from_arrays(
            noise.normal(size=(split.n_users, 8)), noise.normal(size=(split.n_items, 8)), **ids
        ),
        "popularity": popularity(split),
        "features, never-mentioned cells 0": plain,
        "features, completed": filled,
        "BPRMF": BPRMF().fit(split, seed=seed, device="cpu"),
    }
    values = {name: metric(factors, split, "ndcg") for name, factors in judged.items()}
    validation = {
        f"validation, {name}": it.settings["validation_ndcg@10"]
        for name, it in (("plain", plain), ("completed", filled))
    }
    print(values, validation, flush=True)
    return {**values, **validation}


def metric(
    factors: Factors, split: Split, name: str, categories: Categories | None = None, base: Factors | None = None
) -> float:
    """Mean on the test part; distances between items are taken on the base features."""
    more = {} if categories is None else {"categories": categories}
    context = Context.from_split(split, "test", vectors=(base or factors).item, **more)
    lists, _ = factors.rank(10, exclude=split.seen_before("test"))
    return evaluate(lists, context, [f"{name}@10"], bootstrap=0).scores[0].mean


def explained(
    model: CMB, others: list[CMB], goal: str, split: Split, categories: Categories, names: tuple[str, ...]
) -> dict[str, Any]:
    """The features that moved most, what it gained on test, and what changes that know nothing gain."""
    base, delta = model.base_, item_change(model)

    def value(change: np.ndarray, name: str = goal) -> float:
        return metric(base.with_vectors(item=base.item + change), split, name, categories, base)

    shuffled = [value(permuted(model.delta_.item, seed, "item").numpy()) for seed in range(DRAWS)]
    learned = value(delta)
    moved = np.abs(delta).mean(0)
    agreement = [float(spearmanr(moved, np.abs(item_change(other)).mean(0)).statistic) for other in others]
    asked = Question(f"{goal}@10", "raw", draws=DRAWS)
    controls = run_checks(model, split, categories, asked).controls
    return {
        "verdict": Verdict.of(controls).to_dict(),
        "top": [{"feature": names[at], "mean_change": float(moved[at])} for at in np.argsort(-moved)[:TOP]],
        "before": value(delta * 0),
        "after": learned,
        "ndcg_before": value(delta * 0, "ndcg"),
        "ndcg_after": value(delta, "ndcg"),
        "shuffled_within_items": float(np.mean(shuffled)),
        "shuffled_best": max(shuffled),
        "p": (1 + sum(it >= learned for it in shuffled)) / (1 + DRAWS),
        "bias_part": value(bias_part(base, delta)),
        "rank_correlation_over_seeds": agreement,
        # A trivial ranking that knows nothing of the objective: how much users weigh each feature.
        "rank_correlation_with_user_weights": float(spearmanr(moved, np.abs(base.user).mean(0)).statistic),
        "first_over_median": float(moved.max() / np.median(moved)),
    }


def item_change(model: CMB) -> np.ndarray:
    """(n_items, n_features): what CMB added to each feature of each item."""
    return model.delta_.item.cpu().numpy()


def bias_part(base: Factors, delta: np.ndarray) -> np.ndarray:
    """The part of the change that lifts an item for everybody alike: delta along the mean user."""
    mean = base.user.mean(0)
    return np.outer(delta @ mean, mean / (mean @ mean)).astype(np.float32)


def heat_map(model: CMB, names: tuple[str, ...], tables: FeatureTables) -> dict[str, Any]:
    """The items that moved most against the features that moved most."""
    delta = item_change(model)
    columns = np.argsort(-np.abs(delta).mean(0))[:HEAT_FEATURES]
    rows = np.argsort(-np.abs(delta).sum(1))[:HEAT_ITEMS]
    ids = [str(model.base_.item_ids[row]) for row in rows]
    return {
        "goal": HEAT_GOAL,
        "items": ids,
        "spoken_of_as": [most_mentioned(tables.tables["mentions"], item) for item in ids],
        "features": [names[column] for column in columns],
        "values": delta[np.ix_(rows, columns)].round(5).tolist(),
    }


def most_mentioned(mentions: pl.DataFrame, item: str) -> str:
    """Review files have no titles; what reviewers mention most says what the item is."""
    counts = mentions.filter(pl.col("item_id") == item)["feature"].value_counts(name="n")
    return ", ".join(counts.sort(["n", "feature"], descending=[True, False])["feature"][:2])


if __name__ == "__main__":
    main()
