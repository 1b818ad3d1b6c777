"""Bad input and the messages for it: the table behind docs/errors.md.

python tests/trust/errors.py --write     writes the page again

Every row runs here: a command line in a folder of small files, good and bad, or a line of Python. The page shows what
was printed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
HEAD = """# Error messages for bad input

Every error is one sentence that says what is wrong, where, and what to do. The exit code is 2 for wrong input or usage,
1 for a failure that the caller did not cause, and 0 for success. Python raises `recprism.errors.InputError` (a
`ValueError`) with the same sentence. For a missing argument or an unknown option, the message also names the command's
`--help`.

`make errors` generates this page from the cases of `tests/trust/errors.py`. The tests run every input below and compare
every message.
"""


@dataclass(frozen=True)
class Row:
    """shown: the input as typed; message: what was said; code: the exit code, None in Python."""

    group: str
    shown: str
    message: str
    code: int | None


COMMANDS = """
Files of interactions
train --data nothing.csv -o new
train --data empty.csv -o new
train --data header.csv -o new
train --data nocolumn.csv -o new
train --data ragged.csv -o new
train --data latin.csv -o new
train --data short.csv.gz -o new
train --data noise.parquet -o new
train --data rating.csv -o new
train --data missing.csv -o new
train --data one.csv -o new
train --data untyped.inter -o new
train --data a.xlsx -o new
train --data netflix -o new
train --data a.csv --column item_id=sku -o new
train --data a.csv --column item_id -o new
train --data colons.csv -o new
train --data a.csv --column colour=sku -o new
train --data a.csv --items lists_in_text.csv --category-column genres -o new
train --data a.csv --items items.csv --category-column tag_* -o new
train --data a.csv --category-separator "&" -o new
train --data ml-latest-small --items items.csv -o new
train --data a.csv --preset paper -o new
train --data a.csv --categories s.csv --items items.csv --category-column title -o new
train --data a.csv --categories nothing.csv -o new
train --data a.csv --categories a.csv -o new
train --data a.csv --items items.csv --category-column genre -o new
train --data a.csv --items nocolumn.csv -o new
train --data a.csv --category-column genre -o new
train --data a.csv --threshold high -o new
train --data a.csv --threshold nan -o new
train --data a.csv --min-user 1000 -o new
train -o run --data a.csv
train -o a.csv --data a.csv
train -o other --data a.csv
train -o new --data a.csv --model svd
train -o new --data a.csv --model-preset best
train -o new --data a.csv --set factors=3
train -o new --data a.csv --set dim=0
train -o new --data a.csv --set dim
train -o new --data a.csv --split half
train -o new --data a.csv --split user-temporal
train -o new --data a.csv --metric euclid
train -o new --data a.csv --device tpu
train -o new --data a.csv --seed abc
train -o new --data a.csv --seed -1
train -o new --data a.csv --seed 99999999999999999999
train -o new --data a.csv --set dim=none
train -o new --data a.csv --set epochs=abc
train -o new --data a.csv --set learning_rate=nan
train -o new --data a.csv --set start=random
train -o new --data a.csv --split paper --set patience=2
train -o new --data a.csv --categories negative.csv
train -o new --data huge.csv
resume nowhere
resume untrained --name players
train --resume run
train --preset paper --min-user 5 --min-item 5 -o new
train --nope
train --modl als
Lists and figures
recommend
recommend nowhere
recommend untrained
recommend run -k 0
recommend run --users 999
recommend run --users 99999999999999999999
recommend run --users \u00b2
recommend run --users ""
recommend run -o lists.doc
recommend run --live
recommend run --part test
recommend run --name cautious
recommend run --name ../other
evaluate nowhere
evaluate run -m accuracy@10
evaluate run -m ndcg@ten
evaluate run -m ""
evaluate run --part train
evaluate-lists twice.csv
evaluate-lists norank.csv
evaluate-lists lists.csv --held-out nothing.csv
evaluate-lists lists.csv --held-out strangers.csv
evaluate-lists lists.csv --column rank=place
evaluate run --held-out lists.csv
evaluate run --held-out nothing.csv
evaluate run --against-name bold
evaluate-lists lists.csv --run run --categories s.csv
evaluate-lists lists.csv --part validation
evaluate-lists lists.csv --run run --missing drop
evaluate-lists lists.csv --catalogue-size 1
evaluate-lists lists.csv -m paper
evaluate-lists lists.csv --categories nocolumn.csv
evaluate-lists lists.csv --categories a.csv
evaluate-lists lists.csv --items nocolumn.csv
evaluate run --against nowhere
evaluate run --seed -1
evaluate badseed
Vectors of your own
import --user-vectors u.npy --item-vectors wide.npy -o made
import --user-vectors pickled.npy --item-vectors i.npy -o made
import --user-vectors nan.npy --item-vectors i.npy -o made
import --user-vectors u.npy --item-vectors huge.npy -o made
import --user-vectors u.txt --item-vectors i.npy -o made
import --user-vectors u.npy --item-vectors i.npy --item-ids s.csv -o made
import --user-vectors u.npy --item-vectors i.npy --item-bias u.npy -o made
import --user-vectors u.npy --item-vectors i.npy --user-key weights -o made
import --user-vectors u.npy --item-vectors i.npy --metric euclid -o made
import --user-vectors u.npy --item-vectors i.npy --set-aside 0.2 -o made
import --user-vectors u.npy --item-vectors i.npy --interactions a.csv --held-out a.csv --set-aside 0.2 -o made
import --user-vectors u.npy --item-vectors i.npy --interactions nocolumn.csv -o made
import --user-vectors u.npy --item-vectors i.npy --category-column genres -o made
import --user-vectors u.npy --item-vectors i.npy -o run
Audits and diversity
audit
audit nowhere
audit run --goal novelty
audit plain --goal subtopic_coverage
audit unlabelled --goal err_ia
audit run --guard recall@20
audit run --guard recall@20=much
audit run --guard recall@20=2
audit run --confidence 2
audit --user-vectors u.npy
audit lists.csv
audit run --held-out nothing.csv
diversify
diversify run
diversify untrained --budget 0.1
diversify found --budget 0.1
diversify run --budget 3
diversify run --budget 0.9
diversify run --budget nan
diversify run --budget 0.1 --goal beauty
diversify run --budget 0.1 --goal alpha_ndcg+err_ia
diversify run --budget 0.1 --into dials
diversify run --budget 0.1 --certify-on train
diversify run --budget 0.1 --ban 999
diversify run --budget 0.1 --ban 99999999999999999999
diversify run --budget 0.1 --ban \u00b2
diversify run --budget 0.1 --pin 99999999999999999999=5
diversify run --budget 0.1 --ban ""
diversify run --budget 0.1 --pin top=5
diversify run --budget 0.1 --pin ²=5
diversify run --budget 0.1 --pin 1=5 --pin 01=6
diversify run --budget 0.1 --min-share k0=most
diversify run --budget 0.1 --guard sc=1% --guard sc=2%
diversify run --budget 0.1 --guard ndcg=50%
diversify run --budget 0.1 --guard pc=5%
diversify run --budget 0.1 --accuracy recall
diversify run --budget 0.1 --name a/b
search
search untrained
search found
search run --goal beauty
search run --budget 0.1
search run --preset best
search run --preset paper --relevance 0.5
search run --set iterations=0
search run --set iterations=abc
search run --set rate=nan
search run --set k=100000
search run --set patience=3
search run --preset shared --set confidence=2
search run --goal ilad --set diversity=sc
resume run --name players
refit run
refit run --like run
refit run --like run --max-churn 20
frontier run --goal beauty
frontier plain
frontier run --rivals magic
compare --grid full
explain run
explain
explain found --user 1
explain --lists lists.csv
why certified
why found --user 99999999999999999999
why found --user 1
why certified --user 1 --part test
why certified --user 1 --item 1 --why-not 2
why certified --user 1 --what-if colour=red
explain-lists lists.csv
explain-lists nowhere.csv --run run
dials certified --ordered
dials certified --concepts clusters=20
export certified --form dials --rest user-vectors
dials certified --user 999
dials uncategorised
dials run
explain run --concepts popularity
explain-lists lists.csv --scores a.csv
steer run --user 1 --set Drama=0.1
steer found --user 1 --set Drama=0.1
steer certified --user 1 --set Drama=0.1
steer certified --user 1 --set k0=2
erase run
erase certified
erase found --json --curve
erase found --controls 0 --top 3
erase found --user 1
changes found
changes found --user 1 --item 2
changes found --user 1 --top 3
check found
check found --min-gain sc=5
check found --max-ndcg-loss 1% --max-loss ndcg=2%
check found --max-ndcg-loss 5
check found --max-ndcg-loss nan
check found --max-ndcg-loss 1% --measured --confidence 99%
check run --max-ndcg-loss 0.1
Reports, exports and serving
report nowhere
report found --draws 5
report run --draws 99
export run --to word
export run --to npz -o other
export run --to npz --metric cosine -o new
export run --alpha 2
export run --form scores
export run --form rule
export run --form dials
export run --rule
export run --no-vectors
export run --with-histories
export certified --to npz
export certified --form vectors
export certified --form boosts
export certified --form dials --no-vectors
export certified --form user-vectors --for-index nothing.faiss -o new
export uncategorised --form dials
export found --form rule
export found --alpha 0.5
batch run --users u.npy -o new --repeat-seen
batch rule --users u.npy -o new
batch rule --users u.npy -o new --seen a.csv --repeat-seen
batch rule --users a.csv -o new --repeat-seen
batch rule --users nothing.npy -o new --repeat-seen
batch rule --users pickled.npy -o new --repeat-seen
batch rule --users wide.npy -o new --repeat-seen
batch rule --users nan.npy -o new --repeat-seen
batch rule --users u.npy -o other --repeat-seen
batch rule --users u.npy -o new --seen noise.parquet
batch rule --users u.npy -o new -k 0 --repeat-seen
batch rule --users u.npy -o new --shard-users 0 --repeat-seen
batch rule --users u.npy -o new --device tpu --repeat-seen
batch rule --users u.npy -o new --executor cloud --repeat-seen
batch rule --users u.npy -o new --executor ray --device cuda --repeat-seen
batch bare --users u.npy -o new --repeat-seen
runs nowhere
serve run
studio nowhere
studio run --port 99999
studio run --host no.such.host.invalid
studio run --token ""
studio run --reader-token ""
studio run --token same --reader-token same
monitor found nothing.csv
monitor run lists.csv
monitor found --lists lists.csv --floor nan
monitor found --lists lists.csv --day-column day --column day=rank
monitor run
monitor run --served nowhere
monitor-log run --served nowhere
monitor-log rule
monitor-log rule --served log --max-hit-loss 5%
monitor found --lists lists.csv --taken a.csv
experiment found --holdout 5%
holdout found --share 5%
holdout found --share 2 --click-rate 8%
experiment run
experiment found --budget 1% --guard ndcg=50%
interleave run -o mixed.csv
score-clicks mixed.csv --clicks a.csv
features nothing.json -o new
reproduce --table 9
data show netflix
data fetch netflix
data fetch ml-1m --mirror nonsense
demo -o run
Damaged and mixed runs
evaluate damaged
evaluate badconfig
evaluate mixed
evaluate nometa
evaluate old
Unknown words
nope
"""


def folder_of_files(folder: Path) -> None:
    """Small files, good and bad, and runs."""
    pairs = [(u, i) for u in range(30) for i in range(20) if (3 * u + 7 * i + u * i) % 4]
    rows = "".join(f"{u},{i}\n" for u, i in pairs)
    texts = {
        "a.csv": "user_id,item_id\n" + rows,
        "s.csv": "item_id,category\n" + "".join(f"{i},k{i % 3}\n" for i in range(20)),
        "items.csv": "item_id,title\n" + "".join(f"{i},Film {i}\n" for i in range(20)),
        "empty.csv": "",
        "header.csv": "user_id,item_id\n",
        "nocolumn.csv": "user,item\n1,2\n",
        "ragged.csv": "user_id,item_id\n1,2\n1,2,3,4\n",
        "rating.csv": "user_id,item_id,rating\n1,2,5\n1,3,good\n",
        "missing.csv": "user_id,item_id\n1,2\n,3\n",
        "one.csv": "user_id,item_id\n1,2\n",
        "untyped.inter": "user_id\titem_id\n1\t2\n",
        "a.xlsx": "PK\x03\x04 a workbook",
        "colons.csv": "user_id:item_id\n1:2\n",
        "lists_in_text.csv": 'item_id,genres\n1,"[\'Drama\']"\n2,"[\'Comedy]"\n3,"[\'Drama\']"\n',
        "strangers.csv": "user_id,item_id\nnobody,nothing\n",
        "twice.csv": "user_id,item_id,rank\n1,2,1\n1,2,2\n",
        "norank.csv": "user_id,item_id\n1,2\n",
        "lists.csv": "user_id,item_id,rank\n1,2,1\n1,3,2\n",
        "u.txt": "1 2 3\n",
        "negative.csv": "item_id,category,weight\n1,k0,-1\n2,k1,2\n",
        "huge.csv": "user_id,item_id,rating\n1,2,1e300\n1,3,4\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin.csv").write_bytes("user_id,item_id\n1,caf\u00e9\n".encode("latin-1"))
    (folder / "short.csv.gz").write_bytes(gzip.compress(texts["a.csv"].encode())[:-20])
    (folder / "noise.parquet").write_bytes(bytes(range(256)))
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    np.save(folder / "u.npy", vectors)
    np.save(folder / "i.npy", vectors[:20])
    np.save(folder / "wide.npy", np.hstack([vectors, vectors])[:20])
    np.save(folder / "nan.npy", np.where(vectors > 2, np.nan, vectors) if (vectors > 2).any() else vectors * np.nan)
    np.save(folder / "huge.npy", np.full((20, 4), 1e300))
    np.save(folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    _rules(folder, vectors[:20])
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("mine", encoding="utf-8")
    _runs(folder)


def _rules(folder: Path, vectors: NDArray[np.float32]) -> None:
    """Exports of a rule with item vectors and without."""
    from recprism.forms import RuleFile

    n = len(vectors)
    facts = {"trade_off": 0.2, "history_weight": 0.0, "k": 5, "candidates": 10, "constraints": {}}
    rows = {"indptr": np.arange(n + 1), "indices": np.arange(n, dtype=np.int32) % 3, "shares": np.ones(n)}
    unit = {"unit": np.zeros((1, 1)), "known": np.zeros(1, np.bool_)}
    goals = {"goals": {"subtopic_coverage": 1.0}, "units": {"subtopic_coverage": 1 / 3}}
    for name, own in (("rule", vectors), ("bare", None)):
        made = {**goals, **facts, **rows, **unit, "item_ids": np.arange(n), "names": ("k0", "k1", "k2")}
        RuleFile(**made, item_vectors=own).write(folder / name)


def _runs(folder: Path) -> None:
    from recprism.cmb import CMB
    from recprism.data import SparseRows, Split, load_files
    from recprism.models import BPRMF
    from recprism.result.result import Result
    from recprism.runs.config import BudgetConfig, DiversifyConfig, RunConfig
    from recprism.runs.jobs.diversify import diversify_within
    from recprism.runs.run import Run

    data = load_files(folder / "a.csv", categories=folder / "s.csv")
    for name, seed in (("untrained", 0), ("run", 0), ("second", 1)):
        split = data.split(seed=seed)
        run = Run.create(folder / name, RunConfig(seed=seed, device="cpu"))
        run.save_data(data, split)
        run.event("data", name="made")
        if name != "untrained":
            run.save_factors(BPRMF(epochs=1, dim=4).fit(split, seed=seed, device="cpu"))
    whole, none = data.interactions.matrix(), SparseRows.empty(split.train.shape)
    unlabelled = Run.create(folder / "unlabelled", RunConfig(device="cpu"))
    unlabelled.save_data(data, Split(whole, none, none, split.user_ids, split.item_ids))
    unlabelled.save_factors(BPRMF(epochs=1, dim=4, patience=None).fit(unlabelled.split(), seed=0, device="cpu"))
    plain = Run.create(folder / "plain", RunConfig(device="cpu"))
    bare = load_files(folder / "a.csv")
    plain.save_data(bare, bare.split(seed=0))
    plain.save_factors(BPRMF(epochs=1, dim=4).fit(bare.split(seed=0), seed=0, device="cpu"))
    for copy in ("found", "certified", "damaged", "badconfig", "badseed", "mixed", "nometa", "old"):
        shutil.copytree(folder / "run", folder / copy)
    found = Run.open(folder / "found")
    found.set_diversify(DiversifyConfig(settings={"iterations": 2}))
    search = CMB(iterations=2, device="cpu").fit(found.factors(), found.split(), found.categories())
    found.save_result(Result.of_vectors(found.problem(), search.changed()))
    shutil.copytree(folder / "plain", folder / "uncategorised")
    for name, goal in (("certified", "subtopic_coverage"), ("uncategorised", "ilad")):
        assert diversify_within(Run.open(folder / name), BudgetConfig(goal=goal, budgets={"ndcg@10": 0.5})).is_changed
    stored = (folder / "run" / "factors.safetensors").read_bytes()
    (folder / "damaged" / "factors.safetensors").write_bytes(stored[: len(stored) // 2])
    (folder / "badconfig" / "config.toml").write_text("seed = nothing", encoding="utf-8")
    asked = (folder / "run" / "config.toml").read_text(encoding="utf-8")
    (folder / "badseed" / "config.toml").write_text(asked.replace("seed = 0", "seed = -1"), encoding="utf-8")
    (folder / "old" / "config.toml").write_text(asked.replace("format = 4", "format = 3"), encoding="utf-8")
    shutil.copy(folder / "second" / "factors.safetensors", folder / "mixed" / "factors.safetensors")
    (folder / "nometa" / "factors.json").unlink()


# -- what is tried in Python ------------------------------------------------------------------------------------------

PYTHON = """
Factors.from_arrays([1, 2], [[1, 2]])
Factors.from_arrays([[1, 2]], [[1, 2, 3]])
Factors.from_arrays([[float("nan")]], [[1]])
Factors.from_arrays([[1]], [[1]], user_ids=["a", "b"])
Factors.from_arrays([[1], [2]], [[1]], user_ids=["a", "a"])
Factors.from_arrays([[1]], [[1]]).recommend("nobody")
Factors.from_arrays([[1]], [[1]]).rank(0)
Factors.load("nothing.safetensors")
BPRMF(dim=0)
BPRMF(learning_rate=-1)
BPRMF(loss="hinge")
LightGCN(layers=-1)
CMB(diversity="beauty").require_known_goals()
CMB(iterations=0)
CMB(rate=float("nan"))
CMB(seed=-1)
BPRMF(dim=10**20)
load_dataset("netflix")
load_files("nothing.csv")
evaluate([[0, 1]])
evaluate([[0, 1]], Context(relevant=[[1, 0]]), ["ndcg@2"], seed=10**20)
Context(relevant=[[float("nan"), 0]])
Context(relevant=[[-1, 0]])
Context(relevant=np.ma.masked_array([[1, 0]], mask=[[0, 1]]))
Factors.from_arrays([[1]], [[1]], user_ids=[None])
Factors.from_arrays([[1e300]], [[1]])
evaluate([[0, 9]], Context(relevant=[[1, 0]]), ["ndcg@2"])
evaluate([[0, 0]], Context(relevant=[[1, 0]]), ["ndcg@2"])
evaluate([[0, 1]], Context(relevant=[[1, 0]]), ["ndcg@5"])
evaluate([[0, 1]], Context(relevant=[[1, 0]]), ["subtopic_coverage@2"])
evaluate([[0, 1]], Context(relevant=[[1, 0]]), ["beauty@2"])
Run.open("nowhere")
create_app(["run"], reader_token="look")
create_app(["run"], token="look", reader_token="look")
"""


def in_python(line: str) -> Row:
    from recprism import BPRMF, CMB, Factors, LightGCN, evaluate
    from recprism.data import load_dataset, load_files
    from recprism.errors import RecprismError
    from recprism.metrics import Context
    from recprism.runs.run import Run
    from recprism.studio.app import create_app

    names = {"BPRMF": BPRMF, "CMB": CMB, "Factors": Factors, "LightGCN": LightGCN, "evaluate": evaluate}
    names |= {"np": np, "create_app": create_app}
    names |= {"load_dataset": load_dataset, "load_files": load_files, "Context": Context, "Run": Run}
    try:
        eval(line, names)
    except RecprismError as refused:
        return Row("In Python", line, str(refused), None)
    raise AssertionError(f"{line}: was accepted")


def on_command_line(group: str, line: str) -> Row:
    from recprism.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, COLUMNS="1000", NO_COLOR="1"),
        patch.object(sys, "argv", ["recprism", *shlex.split(line)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code: object = 0
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code
    shutil.rmtree("new", ignore_errors=True)  # a run that was begun before the error showed
    if not code:
        raise AssertionError(f"recprism {line}: was accepted")
    return Row(group, f"recprism {line}", said(err.getvalue()), int(str(code)))


def said(text: str) -> str:
    """The sentence after "error:"."""
    lines = text.splitlines()
    at = max((n for n, line in enumerate(lines) if line.startswith("error:")), default=0)
    return " ".join(line.strip() for line in lines[at:]).removeprefix("error:").strip()


def table(folder: Path, tell: Callable[[str], None] | None = None) -> Iterator[Row]:
    """Every row, run in ``folder``."""
    before, group = Path.cwd(), ""
    os.chdir(folder)
    try:
        for line in COMMANDS.strip().splitlines():
            if line[0].isupper():
                group = line
                continue
            if tell is not None:
                tell(line)
            yield on_command_line(group, line)
        for line in PYTHON.strip().splitlines():
            yield in_python(line)
    finally:
        os.chdir(before)


def page(rows: list[Row]) -> str:
    text, group = HEAD, ""
    for row in rows:
        if row.group != group:
            group = row.group
            text += f"\n## {group}\n\n| input | message | exit code |\n|---|---|---|\n"
        message = row.message.replace("|", "\\|").replace("<", "\\<").replace("`", "'")
        code = "" if row.code is None else row.code
        text += f"| `{row.shown}` | {message} | {code} |\n"
    return text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder_of_files(folder)
        text = page(list(table(folder)))
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
