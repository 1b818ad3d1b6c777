"""Record what RecBole ranks, for the tests of its adapter:

    python tools/record_recbole.py RECBOLE_PYTHON tests/golden/recbole

RECBOLE_PYTHON is the python of an environment made as tools/export_recbole.py says. The embedded MovieLens data, split
as ``split(seed=0)``, is written in RecBole's own format; RecBole trains on it, ranks, and exports; a checkpoint that it
saved on the way is exported, too, and must be the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from recprism import load
from recprism.data.split import Part, Split

MODELS = {"BPR": {"embedding_size": 12, "epochs": 40}, "LightGCN": {"embedding_size": 8, "epochs": 40, "n_layers": 2}}
PARTS: dict[Part, str] = {"train": "train", "validation": "valid", "test": "test"}
USERS, K = 40, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_parts(load("ml-latest-small").split(seed=0), home / "small")
        for model, settings in MODELS.items():
            record(asked.python, model, settings, home, asked.folder / f"{model}.npz")


def write_parts(split: Split, folder: Path) -> None:
    """One .inter file a part, ids as in the data."""
    folder.mkdir()
    for part, name in PARTS.items():
        pairs = split.part(part)
        pl.DataFrame(
            {
                "user_id:token": split.user_ids[pairs.row_of_entry],
                "item_id:token": split.item_ids[pairs.indices],
            }
        ).write_csv(folder / f"{folder.name}.{name}.inter", separator="\t")


def record(python: Path, model: str, settings: dict[str, int], home: Path, output: Path) -> None:
    saved = home / model
    config = {
        "model": model,
        "dataset": "small",
        "data_path": str(home),
        "benchmark_filename": list(PARTS.values()),
        "load_col": {"inter": ["user_id", "item_id"]},
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "RO", "group_by": "user", "mode": "full"},
        "checkpoint_dir": str(saved),
        "train_batch_size": 4096,
        "learning_rate": 0.005,
        "use_gpu": False,
        "state": "ERROR",
        "seed": 0,
        **settings,
    }
    (home / f"{model}.yaml").write_text(json.dumps(config))  # JSON is YAML
    export(python, home / f"{model}.yaml", output, "--lists", str(USERS), "-k", str(K))
    (checkpoint,) = saved.glob("*.pth")
    export(python, checkpoint, home / "again.npz")
    with np.load(output) as first, np.load(home / "again.npz") as again:
        assert all(np.array_equal(first[name], again[name]) for name in first.files), f"{model}: the checkpoint differs"


def export(python: Path, source: Path, output: Path, *options: str) -> None:
    script = Path(__file__).with_name("export_recbole.py")
    command = [python.absolute(), script, source, "-o", output.absolute(), *options]
    subprocess.run([str(word) for word in command], check=True, cwd=source.parent)


if __name__ == "__main__":
    main()
