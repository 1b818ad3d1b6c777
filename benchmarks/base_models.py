"""The base models of the contest beside their peers, on the test part of ml-1m (per-user order in time).

    python benchmarks/base_models.py --models FOLDER      vectors that contest_models.py trained are read from FOLDER
    python benchmarks/base_models.py                      every model is trained here; sasrec takes hours on a CPU

The peers' figures are in benchmarks/base_models.json. To record them again:

    python benchmarks/contest_models.py export SPLITS
    RECBOLE_PYTHON benchmarks/recbole_peers.py SPLITS/ml-1m.npz user-temporal.0 PEERS
    LENSKIT_PYTHON benchmarks/lenskit_peer.py SPLITS/ml-1m.npz user-temporal.0 PEERS
    python benchmarks/base_models.py --record PEERS

Both sides are tuned on the validation part and judged by the same code. Ours are means over the five seeds of the
contest, or over those that FOLDER has (ease has one solution); a peer has one seed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from contest.base_models.exchange import read_model
from contest.base_models.tuned import train
from recprism.data import Split, load_dataset
from recprism.metrics import Context, evaluate

RECORD = Path(__file__).with_name("base_models.json")
DATASET, METHOD, SEEDS = "ml-1m", "user-temporal", range(5)
METRICS = ("ndcg@10", "recall@20")
PEERS = {"bprmf": "BPR", "lightgcn": "LightGCN", "als": "ALS", "ease": "EASE", "sasrec": "SASRec"}
LIBRARIES = {"ALS": "LensKit 2025 (ImplicitMFScorer)"}


def judged(items: np.ndarray, split: Split) -> list[float]:
    """The metrics of lists of 20 items on the test part."""
    found = evaluate(items, Context(relevant=split.test), list(METRICS), bootstrap=0).scores
    return [score.mean for score in found]


def ours(name: str, split: Split, folder: Path | None) -> tuple[list[float], int]:
    """The mean metrics over seeds, and the number of seeds: those stored in the folder, if it has any of the model."""
    seeds = SEEDS if name != "ease" else SEEDS[:1]
    stored = [] if folder is None else [read_model(folder, DATASET, name, split, seed) for seed in seeds]
    models = (model for model in stored if model is not None)
    if not any(model is not None for model in stored):
        models = (train(name, split, dataset=DATASET, seed=seed) for seed in seeds)
    values = [judged(model.rank(20, exclude=split.seen_before_test)[0], split) for model in models]
    return list(np.mean(values, axis=0)), len(values)


def record(folder: Path, split: Split) -> None:
    """Judge the lists of the peers, and write their figures."""
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in PEERS.values():
        if not (folder / f"{name}.npz").exists():
            continue
        with np.load(folder / f"{name}.npz") as stored:
            values = judged(stored["lists"].astype(np.int64), split)
        about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        library = LIBRARIES.get(name, "RecBole 1.2.1")
        found[name] = {"library": library, **dict(zip(METRICS, values, strict=True)), **about}
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", type=Path, help="folder of the vectors that contest_models.py trained")
    options.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), help="models to show")
    options.add_argument("--record", type=Path, help="folder of the peers' lists, to record their figures")
    asked = options.parse_args()
    split = load_dataset(DATASET, preset="paper").split(METHOD, seed=0)
    if asked.record is not None:
        record(asked.record, split)
    peers = json.loads(RECORD.read_text(encoding="utf-8"))
    print("| model | seeds | NDCG@10, ours / peer | Recall@20, ours / peer | peer |\n|---|---|---|---|---|")
    for name in asked.only:
        values, n = ours(name, split, asked.models)
        peer = peers.get(PEERS[name])
        theirs = [f"{peer[metric]:.4f}" for metric in METRICS] if peer else ["not recorded"] * len(METRICS)
        both = " | ".join(f"{value:.4f} / {other}" for value, other in zip(values, theirs, strict=True))
        print(f"| {name} | {n} | {both} | {peer['library'] if peer else ''} |", flush=True)


if __name__ == "__main__":
    main()
