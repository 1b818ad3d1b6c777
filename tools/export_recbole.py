"""From a model of RecBole to one file that recprism reads: run this with the python of your RecBole environment.

    python export_recbole.py saved/BPR-Nov-15-2026.pth -o bpr.npz     # a checkpoint that RecBole saved
    python export_recbole.py settings.yaml -o bpr.npz                 # or train what RecBole's settings describe

and then, where recprism lives, ``from_recbole("bpr.npz")``. RecBole 1.2 asks for numpy 1, so the two do not share an
environment; this one works (torch of any version that your own models need):

    python -m venv recbole-venv
    recbole-venv/bin/pip install 'torch==2.13.0' 'numpy<2' 'setuptools<81' 'pandas<3' 'scipy<1.12' 'recbole==1.2.1'

It takes every model whose score is a dot product of a user and an item vector (BPR, LightGCN, NGCF, SGL, ...), and asks
the model itself: what is written has been seen to give the scores of its ``full_sort_predict``. RecBole's row 0 is
padding and is left out. ``--lists N`` writes RecBole's own top-k lists of N users next to it, to compare with.

A checkpoint of RecBole is a pickle: open only what you trust.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.interaction import Interaction
from recbole.utils import get_model, get_trainer, init_seed
from recbole.utils.case_study import full_sort_topk

warnings.filterwarnings("ignore")
PLACES = (("restore_user_e", "restore_item_e"), ("user_embedding", "item_embedding"))
"""Where models keep what they rank by: graph models their propagated vectors, others plain embeddings."""
SETTINGS = ("embedding_size", "learning_rate", "train_batch_size", "epochs", "n_layers", "reg_weight", "seed")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="a .pth checkpoint, or RecBole's settings as YAML")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .npz file to write")
    parser.add_argument("--lists", type=int, default=0, metavar="N", help="also write RecBole's lists of N users")
    parser.add_argument("-k", type=int, default=10, help="how long those lists are")
    asked = parser.parse_args()
    if not asked.source.is_file():
        sys.exit(f"{asked.source}: no such file; name a checkpoint or RecBole's settings")
    sys.argv = sys.argv[:1]  # RecBole reads options of its own from the command line
    config, dataset, model, test = restored(asked.source) if asked.source.suffix == ".pth" else trained(asked.source)
    user, item = vectors(model, dataset)
    users, items = (dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field))
    about = {name: config[name] for name in SETTINGS if isinstance(config[name], (int, float))}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    temporary = asked.output.with_suffix(".part.npz")
    np.savez_compressed(
        temporary,
        user=user[1:],
        item=item[1:],
        user_ids=np.asarray(users[1:], str),
        item_ids=np.asarray(items[1:], str),
        settings=np.asarray(json.dumps({"model": config["model"], **about})),
    )
    temporary.replace(asked.output)
    if asked.lists:
        found = lists(model, dataset, test, asked.lists, asked.k)
        asked.output.with_suffix(".lists.json").write_text(json.dumps(found) + "\n")


def restored(path: Path) -> tuple[Any, Any, Any, Any]:
    """Configuration, data, model and test loader of a checkpoint; RecBole's own loader predates torch 2.6."""
    saved = torch.load(path, map_location="cpu", weights_only=False)
    config = saved["config"]
    config["device"] = torch.device("cpu")
    dataset, train, test = prepared(config)
    model = get_model(config["model"])(config, train.dataset)
    model.load_state_dict(saved["state_dict"])
    model.load_other_parameter(saved.get("other_parameter"))
    return config, dataset, model, test


def trained(path: Path) -> tuple[Any, Any, Any, Any]:
    """The same for a model that is trained now, for all its epochs."""
    config = Config(config_file_list=[str(path)])
    dataset, train, test = prepared(config)
    model = get_model(config["model"])(config, train.dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    trainer.fit(train, saved=True, verbose=False, show_progress=False)
    return config, dataset, model.to("cpu"), test


def prepared(config: Any) -> tuple[Any, Any, Any]:
    init_seed(config["seed"], config["reproducibility"])
    dataset = create_dataset(config)
    train, _, test = data_preparation(config, dataset)
    return dataset, train, test


@torch.no_grad()
def vectors(model: Any, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """(users, d) and (items, d), padding included, whose product the model itself gives as scores."""
    model.eval()
    everybody = Interaction({dataset.uid_field: torch.arange(dataset.user_num)})
    theirs = model.full_sort_predict(everybody).view(dataset.user_num, dataset.item_num)
    for names in PLACES:
        user, item = (getattr(getattr(model, name, None), "weight", getattr(model, name, None)) for name in names)
        if user is None or item is None or user.shape[1] != item.shape[1]:
            continue
        if torch.allclose(user @ item.T, theirs, rtol=1e-4, atol=1e-5):
            return user.numpy(), item.numpy()
    sys.exit(f"{type(model).__name__}: its score is no dot product of a user and an item vector; take BPR or LightGCN")


def lists(model: Any, dataset: Any, test: Any, n: int, k: int) -> dict[str, tuple[list[str], list[str]]]:
    """user id -> (item ids that RecBole leaves out as seen, item ids it recommends), of the first n users it tests."""
    numbers = np.sort(test.uid_list.numpy())[:n]
    _, best = full_sort_topk(numbers, model, test, k)
    users, items = (dataset.field2id_token[field] for field in (dataset.uid_field, dataset.iid_field))
    return {
        str(users[number]): (sorted(items[test.uid2history_item[number].numpy()].tolist()), items[row].tolist())
        for number, row in zip(numbers, best.numpy(), strict=True)
    }


if __name__ == "__main__":
    main()
