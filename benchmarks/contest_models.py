"""Tune and train the base models of the contest, on a machine that needs torch, numpy and numba only.

    python benchmarks/contest_models.py export SPLITS          writes one small .npz per data set (needs the data)
    python benchmarks/contest_models.py tune SPLITS OUT        chooses settings on validation, writes OUT/tuned.json
    python benchmarks/contest_models.py train SPLITS OUT       trains all seeds, writes OUT/models-N.npz (float16)
    python benchmarks/contest_models.py all SPLITS OUT         both

``--only ml-1m.sasrec`` limits the work to jobs whose name begins so; it may be repeated. Files are written after every
trial and every model, and ``tune`` does not repeat the trials of ``OUT/tuned.json``. ``train`` uses the settings of
that file if it is there, else those of the package. To make them those of the package, copy them into
benchmarks/contest/base_models/tuned.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contest.base_models.exchange import model_key
from contest.base_models.tuned import make_base_model, train
from contest_files import read_splits, write_models, write_splits
from recprism.data.split import Split
from recprism.errors import RecprismError
from recprism.metrics import Context, evaluate
from recprism.models.factors import Factors

SEEDS, SPLIT_SEEDS = range(5), range(200, 205)
LISTED = 10


@dataclass(frozen=True)
class Job:
    """A model on a data set with a kind of split."""

    dataset: str
    model: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.dataset}.{self.model}.{self.method}"

    @property
    def splits_and_seeds(self) -> list[tuple[str, int]]:
        """A split in time has one division and five seeds of the model; at random, both have the same seed."""
        if self.method == "random":
            return [(f"random.{seed}", seed) for seed in SPLIT_SEEDS]
        return [(f"{self.method}.0", seed) for seed in SEEDS]


JOBS = (
    *(Job("ml-1m", model, "user-temporal") for model in ("bprmf", "lightgcn", "als", "ease", "sasrec")),
    Job("ml-1m", "bprmf", "random"),
    Job("ml-1m", "bprmf", "temporal"),
    *(Job("amazon-cds-2014", m, method) for method in ("user-temporal", "random") for m in ("bprmf", "ease")),
    *(Job("hetrec2011-lastfm-2k", model, "random") for model in ("bprmf", "ease")),
)
SCORED = ("ease",)
"""Models without vectors: their scores are large and quickly computed, so only their settings are chosen here."""

GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "bprmf": {
        "dim": (64,),
        "learning_rate": (0.003, 0.006, 0.012, 0.024),
        "weight_decay": (0.0, 0.1, 0.5, 2.0, 5.0),
    },
    "lightgcn": {
        "dim": (64,),
        "layers": (2, 3),
        "learning_rate": (0.005, 0.01, 0.02),
        "weight_decay": (0.0, 0.2, 1.0),
    },
    "als": {"dim": (64,), "regularization": (5.0, 20.0, 80.0), "alpha": (1.0, 2.0, 5.0)},
    "ease": {"regularization": (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)},
    "sasrec": {"dim": (64,), "layers": (2, 3), "dropout": (0.2, 0.35, 0.5), "learning_rate": (1e-3, 5e-4)},
}


def grid_of(model: str) -> Iterator[dict[str, Any]]:
    names = GRIDS[model]
    for values in itertools.product(*names.values()):
        yield dict(zip(names, values, strict=True))


def validation_ndcg(model: Any, split: Split) -> float:
    """Mean NDCG@10 of the validation part, training items excluded."""
    items, _ = model.rank(LISTED, exclude=split.train)
    return evaluate(items, Context(relevant=split.validation), ["ndcg@10"], bootstrap=0).scores[0].mean


def tune(job: Job, splits: dict[str, Split], before: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Try the grid on the first split and the first seed; yield the best so far after each trial.

    Args:
        job: The model.
        splits: The splits of its data set.
        before: The outcome of an earlier, interrupted call; its trials are not repeated.
    """
    key, seed = job.splits_and_seeds[0]
    tried = list(before.get("tried", ()))
    for settings in grid_of(job.model):
        if any(entry["settings"] == settings for entry in tried):
            continue
        began = time.perf_counter()
        model = make_base_model(job.model, **settings).fit(splits[key], seed=seed)
        value = validation_ndcg(model, splits[key])
        tried.append({"settings": settings, "validation_ndcg@10": round(value, 5)})
        say(f"tune {job.name} {settings}: {value:.4f}, {epochs_of(model)}{time.perf_counter() - began:.1f} s")
        best = max(tried, key=lambda entry: entry["validation_ndcg@10"])
        yield {**best, "split": key, "seed": seed, "tried": tried}


def epochs_of(model: Any) -> str:
    facts = model.settings if isinstance(model, Factors) else {}
    return f"{facts['best_epoch']} of {facts['epochs_trained']} epochs, " if "best_epoch" in facts else ""


def train_all(
    job: Job, splits: dict[str, Split], chosen: dict[str, Any]
) -> Iterator[tuple[str, tuple[Factors, Split]]]:
    for key, seed in job.splits_and_seeds:
        began = time.perf_counter()
        settings = chosen[job.name]["settings"] if job.name in chosen else None
        if settings is None:
            model = train(job.model, splits[key], dataset=job.dataset, seed=seed)
        else:
            model = make_base_model(job.model, **settings).fit(splits[key], seed=seed)
        value = validation_ndcg(model, splits[key])
        say(f"train {job.name} {key} seed {seed}: {value:.4f}, {time.perf_counter() - began:.1f} s")
        assert isinstance(model, Factors)
        yield model_key(job.dataset, job.model, splits[key], seed), (model, splits[key])


def export(folder: Path) -> None:
    from recprism.data import load_dataset  # noqa: PLC0415 - the machine that trains has no polars

    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(job.dataset for job in JOBS):
        data = load_dataset(name, preset="paper")
        wanted = {key for job in JOBS if job.dataset == name for key, _ in job.splits_and_seeds}
        named = [key.rpartition(".") for key in sorted(wanted)]
        write_splits(
            folder / f"{name}.npz", [data.split(method, seed=int(seed)) for method, _, seed in named], data.categories
        )
        say(f"{folder / name}.npz: {len(named)} splits, {(folder / f'{name}.npz').stat().st_size / 2**20:.1f} MiB")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("export", "tune", "train", "all"))
    options.add_argument("splits", type=Path, help="folder of the exported splits")
    options.add_argument("output", type=Path, nargs="?", help="folder of the results")
    options.add_argument("--only", action="append", help="a job or the beginning of its name", default=[])
    asked = options.parse_args()
    if asked.what == "export":
        return export(asked.splits)
    if asked.output is None:
        options.error("name the folder of the results")
    asked.output.mkdir(parents=True, exist_ok=True)
    jobs = [job for job in JOBS if not asked.only or job.name.startswith(tuple(asked.only))]
    say(f"{torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'cpu'}")
    chosen_path = asked.output / "tuned.json"
    chosen = json.loads(chosen_path.read_text()) if chosen_path.exists() else {}
    trained: dict[str, tuple[Factors, Split]] = {}
    for job in jobs:
        splits = read_splits(asked.splits / f"{job.dataset}.npz")
        try:
            if asked.what != "train":
                for found in tune(job, splits, chosen.get(job.name, {})):
                    chosen[job.name] = found
                    chosen_path.write_text(json.dumps(chosen, indent=1) + "\n")
            if asked.what != "tune" and job.model not in SCORED:
                for key, model in train_all(job, splits, chosen):
                    trained[key] = model
                    write_models(asked.output, trained)
        except RecprismError as problem:  # such as a missing library: the other jobs do not need it
            say(f"{job.name}: {problem}")
    return None


if __name__ == "__main__":
    main()
