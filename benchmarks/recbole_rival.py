"""Train one RecBole model epoch by epoch, in RecBole's own virtual environment; train.py starts it and judges it.

After each epoch it writes the embeddings as .npy files, in the order of the caller's user and item numbers, prints one
JSON line with the seconds spent training so far, and waits for a line on stdin: "go" or "stop".
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

warnings.filterwarnings("ignore")


def main(model_name: str, folder: Path, settings: dict[str, object], n_users: int, n_items: int) -> None:
    base = {
        "data_path": str(folder),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "RO", "group_by": "user", "mode": "full"},
        "embedding_size": 50,
        "checkpoint_dir": str(folder / "saved"),
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
        "seed": 0,
    }
    sys.argv = sys.argv[:1]  # RecBole reads options of its own from the command line
    config = Config(model=model_name, dataset="same", config_dict={**base, **settings})
    init_seed(config["seed"], True)
    dataset = create_dataset(config)
    train_data, _, _ = data_preparation(config, dataset)
    users = rows_of(dataset.field2token_id["user_id"], n_users)
    items = rows_of(dataset.field2token_id["item_id"], n_items)
    began = time.perf_counter()
    model = get_model(config["model"])(config, train_data.dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    seconds = time.perf_counter() - began
    for epoch in range(10_000):
        began = time.perf_counter()
        trainer._train_epoch(train_data, epoch, show_progress=False)
        seconds += time.perf_counter() - began
        with torch.no_grad():
            user, item = embeddings(model)
        np.save(folder / "user.npy", user.detach().numpy()[users])
        np.save(folder / "item.npy", item.detach().numpy()[items])
        print(json.dumps({"epoch": epoch + 1, "seconds": seconds}), flush=True)
        if sys.stdin.readline().strip() != "go":
            return


def rows_of(token_to_row: dict[str, int], size: int) -> np.ndarray:
    """RecBole numbers tokens as it meets them, and its row 0 is padding."""
    return np.array([token_to_row[str(number)] for number in range(size)])


def embeddings(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    if hasattr(model, "get_ego_embeddings"):  # graph models: what they rank by is the propagated embeddings
        user, item = model.forward()
        return user, item
    return model.user_embedding.weight, model.item_embedding.weight


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    main(asked["model"], Path(asked["folder"]), asked["settings"], asked["n_users"], asked["n_items"])
