"""Command lines made of the parser's own commands and options, with hostile values.

python tools/faults/lines.py --lines 20000 --seed 0 --jobs 2   the long run
python tools/faults/lines.py --seed 0 --line 1234              one line again, with its output
python tools/faults/lines.py --world DIR                       makes the folder in which the lines run, to paste them

Every line runs in a folder with runs in every state and with tables. It must end with 0, 1, 2 or 130 and without a
traceback or a warning of a library. A refusal is one sentence, and then no file has changed. A line that ends with 0
has used every option that was given: the command's function has read it, and it was no nonsense. A line that takes too
long gets Ctrl-C. Nothing is sent over a network, and the studio and the service end when they
would begin to listen.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import functools
import hashlib
import inspect
import json
import multiprocessing
import os
import queue
import random
import re
import resource
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kill import ITEMS, MODEL
from truncate import NAMED, Reading, call

SECONDS = 20.0  # then the line gets Ctrl-C
STUCK = 120.0  # then its process is killed, and that is a fault
MEMORY = 3 * 2**30
Files = dict[str, tuple[int, int, int, int]]
"""Path -> size, time of the last change, inode, mode."""

# -- the grammar ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as the parser knows it."""

    name: str
    words: tuple[str, ...]
    is_flag: bool
    is_required: bool
    is_multiple: bool

    @property
    def is_argument(self) -> bool:
        return not self.words[0].startswith("-")


def commands() -> dict[tuple[str, ...], Any]:
    """The words of every command -> the command of the parser."""
    import typer

    from recprism.cli import app

    def below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        if not hasattr(command, "commands"):
            yield path, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from below((*path, name), inner)

    return dict(below((), typer.main.get_command(app)))


def grammar() -> dict[tuple[str, ...], list[Parameter]]:
    return {
        path: [
            Parameter(
                it.name,
                tuple(it.opts),
                bool(getattr(it, "is_flag", False)),
                bool(it.required),
                bool(getattr(it, "multiple", False)) or it.nargs != 1,
            )
            for it in command.params
        ]
        for path, command in commands().items()
    }


# -- values -----------------------------------------------------------------------------------------------------------

RUNS = ("base", "whole", "whole", "whole", "found", "found", "searching", "training")
TABLES = ("a.csv", "items.csv", "lists.csv", "clicks.csv", "reviews.json", "mentions.csv", "features.csv")
FEATURES = "item_id,price,loud\n" + "".join(f"i{n},{n / 12},{n % 2}\n" for n in range(12))
DATA_SETS = ("ml-latest-small", "ml-1m")
METRICS = ("ndcg@10", "recall@5", "subtopic_coverage", "subtopic_coverage@10", "ilad", "catalogue_coverage@10")
SHARES = ("0.05", "5%", "0.5", "30%", "0", "1")
GOOD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("run_directory", "like", "against", "run", "resume", "runs"), RUNS),
    **dict.fromkeys(("confidence", "max_churn", "alpha", "margin", "power", "share", "alive", "tail_floor"), SHARES),
    **dict.fromkeys(("budget", "floor", "max_ndcg_loss", "held_out_users", "set_aside", "show", "relevance"), SHARES),
    "budgets": ("5%", "1%,30%", "0.5"),
    **dict.fromkeys(("guard", "max_loss", "min_gain"), ("ndcg@10=30%", "recall@20=0.5", "recall@10=0.9")),
    **dict.fromkeys(("goal", "metric", "accuracy"), METRICS),
    **dict.fromkeys(("min_user", "min_item", "top", "clusters", "min_mentions"), ("1", "2", "3")),
    **dict.fromkeys(("k", "category_level"), ("1", "5", "10", "20")),
    **dict.fromkeys(("held_out", "train", "interactions"), ("a.csv", "clicks.csv")),
    **dict.fromkeys(("name", "against_name", "like_name"), (NAMED, "third")),
    **dict.fromkeys(("draws", "controls"), ("0", "40")),
    "output": ("new", "new.csv", "new.html", "deep/new.parquet", "new.npz"),
    "junit": ("new.xml",),
    "folder": (".", "vectors"),
    "source": ("a.csv", "ml-latest-small"),
    "data": ("a.csv",),
    "model": ("bprmf", "ease", "popularity", "lightgcn"),
    "model_preset": ("default", "paper"),
    "preset": ("default", "paper", "shared"),
    "settings": ("epochs=1", "dim=4", "iterations=2", "side=user", "rate=0.1", "patience=1"),
    "metrics": (*METRICS, "ndcg@10,ilad"),
    "part": ("test", "validation"),
    "certify_on": ("test", "validation"),
    "history_window": ("1", "20"),
    "missing": ("skip", "zero"),
    "columns": ("user_id=user_id", "item_id=item_id", "rating=rating"),
    "items": ("items.csv",),
    "categories": ("categories.csv",),
    "category_column": ("kind", "title", "kind,title"),
    "category_separator": ("|", ",", " "),
    "split": ("random", "temporal", "user-temporal", "paper"),
    "threshold": ("3", "0.5"),
    "seed": ("0", "1", "17"),
    "device": ("cpu", "auto"),
    "data_root": (".", "data"),
    "mlflow": ("file:mlruns",),
    "mirror": ("http://127.0.0.1:9",),
    "reviews": ("reviews.json",),
    "tuples": ("mentions.csv",),
    "attributes": ("features.csv", "items.csv"),
    "user_vectors": ("vectors/user.npy",),
    "item_vectors": ("vectors/item.npy",),
    "user_ids": ("vectors/users.csv",),
    "item_ids": ("vectors/items.csv",),
    "user_key": ("users", "vectors"),
    "item_key": ("items", "vectors"),
    "user_bias": ("vectors/user_bias.npy",),
    "item_bias": ("vectors/item_bias.npy",),
    "catalogue_size": ("120", "500"),
    "bootstrap": ("0", "100"),
    "users": ("1", "1,2", "3"),
    "user": ("1", "3"),
    "item": ("1", "5"),
    "axes": ("varimax", "canonical"),
    "max_items": ("kind=2",),
    "spacing": ("kind=3",),
    "shown": ("lists.csv",),
    "no_repeat": ("0", "2"),
    **dict.fromkeys(("half_life", "window"), ("1", "0.5")),
    "certify": ("clicks=2%", "clicks=10%,plays=5%"),
    "outcomes": ("clicks.csv",),
    "governor": ("governor.toml",),
    "form": ("rule", "dials", "user-vectors", "boosts", "vectors"),
    "why_not": ("1", "5"),
    "what_if": ("without=5", "ban=k1", "price=0.3", "seen=5", "forget=5"),
    "ban": ("1", "1,2", "'3'"),
    "pin": ("1=5", "2=7"),
    "min_share": ("k1=10%",),
    "max_share": ("k1=50%", "0.5"),
    "executor": ("local",),
    "features": ("0", "0,1"),
    "grid": ("full", "ml-1m:bprmf"),
    "seeds": ("1", "2"),
    "rivals": ("mmr", "mmr,xquad"),
    "table": ("tradeoff_bprmf",),
    "dataset": ("ml-1m",),
    "to": ("npz", "parquet", "safetensors", "faiss"),
    "for_index": ("index.faiss",),
    **dict.fromkeys(("lists", "base", "scores"), ("lists.csv", "a.csv")),
    "day_column": ("day",),
    "fewest": ("2", "10"),
    **dict.fromkeys(("users_per_day", "requests_per_day"), ("100", "20000")),
    **dict.fromkeys(("holdout_share", "click_rate", "change"), SHARES),
    **dict.fromkeys(("max_fallbacks", "max_unmet", "max_hit_loss"), SHARES),
    "served": ("log.parquet", "rule"),
    "taken": ("taken.csv",),
    "max_milliseconds": ("5", "100"),
    "host": ("127.0.0.1", "localhost", "::1"),
    "port": ("0",),
    "token": ("secret",),
    "reader_token": ("look",),
    "caller_token": ("call",),
    "export": ("rule", "rule", "vectors"),
    **dict.fromkeys(("holdout", "holdout_price"), SHARES),
    **dict.fromkeys(("candidates", "max_candidates", "max_k", "max_in_flight"), ("5", "50")),
    "max_bytes": ("2000",),
    "prices": ("prices.json",),
    "scorer": ("bprmf",),
    "log": ("served",),
    "drain": ("0", "0.1"),
    "workers": ("0", "2"),
    "seen": ("log.parquet", "vectors/seen.parquet"),
    "shard_users": ("1", "500"),
}
"""Parameter -> values that work in some line."""

NONSENSE = ("nonsense-zq", "²", "\x07", "a\u202eb", "\U0001f600=\U0001f600")
"""No option but a free text may accept these."""
FREE = {
    "output",
    "junit",
    "token",
    "reader_token",
    "caller_token",
    "log",
    "category_separator",
    "mlflow",
    "data_root",
    "mirror",
    "folder",
    "user_key",
    "item_key",
}
FREE |= {"name"}  # a new result may have any name; a name that must exist is refused elsewhere
HOSTILE = (
    *NONSENSE,
    *(
        "",
        " ",
        "  x ",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "1e300",
        "-1e300",
        "-1",
        "0",
        "-0",
        "0.0",
        "1.5",
        "1e-320",
        "00012",
    ),
    *("9" * 20, "-" + "9" * 20, "18446744073709551616", "2147483648", "1_000", "1,000", "0x10", "½", "٣", "1e5"),
    *("5%", "500%", "-5%", "%", "5 %", "nan%", "1e400%", "None", "null", "true", "[]", "{}", "--", "-", "=", "==", ","),
    *(",,", "a=b", "=1", "1=", "1=2=3", "1=1=1", "a\nb", "a\tb", "\x1b[31mred", "\r", "\u200b", "é", "e\u0301"),
    *("x" * 300, "x" * 5000, "9" * 5000, "../..", "/", "/dev/null", "~", ".", "nowhere", "nowhere/new", "folder"),
    *("empty.csv", "noise.bin", "header.csv", "a.csv", "items.csv", "whole", "whole/config.toml", "whole/report.html"),
    *("searching", "vectors", "whole/factors.safetensors", "'1'", '"1"', "'", '"', "$HOME", "`id`", "*", "?", "\\"),
    *("dim=1000000000", "dim=0", "dim=-1", "epochs=nan", "epochs=null", "iterations=abc", "rate=nan", "k=100000"),
    *("patience=null", "patience=None", "seed=-1", "nosuch=1", "recall=0.1", "ndcg@0", "ndcg@10=nan", "ndcg@9999999"),
    *("ndcg@10=5", "ndcg@-1", "ndcg@", "@10", "1=99999999999999999999", "²=5", "0=5", "-1=5", "99=5", "k1=500%"),
)
QUICK: dict[tuple[str, ...], tuple[str, ...]] = {
    ("train",): ("--data", "a.csv", "-o", "new", "--set", "epochs=1", "--set", "dim=4", "--device", "cpu"),
    ("search",): ("--set", "iterations=2", "--overwrite"),
    ("batch",): ("--users", "whole/factors.safetensors", "-o", "new", "--repeat-seen"),
    ("monitor",): ("--lists", "lists.csv"),
    ("experiment",): ("--budget", "30%"),
    ("evaluate-lists",): ("--bootstrap", "0"),
    ("steer",): ("--user", "1", "--set", "Drama=0.1"),
    ("explain",): ("--draws", "0"),
    ("explain-lists",): ("--run", "whole", "--draws", "0"),
    ("report",): ("--draws", "0"),
    ("erase",): ("--controls", "0"),
    ("diversify",): ("--budget", "30%", "--overwrite"),
    ("refit",): ("--like", "whole", "--overwrite"),
    ("evaluate",): ("--bootstrap", "0"),
    ("check",): ("--max-ndcg-loss", "0.9"),
    ("studio",): ("--port", "0"),
    ("serve",): ("--port", "0"),
    ("frontier",): ("--rivals", "mmr"),
}
"""What most lines of a command have, so that many of them come to an end."""
RARELY = {("demo",): 0.02, ("reproduce",): 0.1, ("frontier",): 0.3}


# -- lines ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A command line.

    given: the parameters in it; nonsense: those of them whose value no command may accept; twice: options with one
    value that have two different ones
    """

    words: tuple[str, ...]
    command: tuple[str, ...]
    given: frozenset[str]
    nonsense: frozenset[str]
    twice: frozenset[str] = frozenset()

    def __str__(self) -> str:
        def quoted(word: str) -> str:
            return shlex.quote(word) if word.isprintable() else "$" + ascii(word).replace("\\U000", "\\U000")

        return " ".join(("recprism", *(quoted(word) for word in self.words)))


def make_line(number: int, seed: int, known: dict[tuple[str, ...], list[Parameter]]) -> Line:
    """The same line for the same numbers; four of five values would work in some line."""
    luck = random.Random(f"{seed} {number}")
    names = sorted(known)
    command = luck.choices(names, [RARELY.get(name, 1.0) for name in names])[0]
    by_name = {it.name: it for it in known[command]}
    wanted = [it for it in known[command] if it.is_required and luck.random() < 0.97]
    optional = [it for it in known[command] if not it.is_required]
    if "run_directory" in by_name and by_name["run_directory"] not in wanted and luck.random() < 0.8:
        wanted.append(by_name["run_directory"])
    wanted += luck.sample(optional, min(len(optional), luck.choice((0, 1, 1, 1, 2, 2, 3, 5))))
    if luck.random() < 0.1 and any(not it.is_argument for it in wanted):
        wanted.append(luck.choice([it for it in wanted if not it.is_argument]))
    luck.shuffle(wanted)
    written = [(one, _value(one, luck)) for one in wanted]
    pieces = [_written(one, value, luck) for one, value in written]
    if luck.random() < 0.02:
        pieces.append(luck.choice((("--nosuch",), ("nowhere",), ("--help",), ("--",), ("-z", "1"))))
    quick = () if luck.random() < 0.15 else _quick(command, known[command], {it.name for it in wanted})
    words = (*command, *(word for _, piece in quick for word in piece), *(word for piece in pieces for word in piece))
    valued = [(one, value) for one, value in written if not one.is_flag]
    return Line(
        words,
        command,
        frozenset({it.name for it in wanted} | {name for name, _ in quick}),
        frozenset({one.name for one, value in valued if value in NONSENSE} - FREE),
        frozenset(one.name for one, value in valued if not one.is_multiple and dict(valued)[one] != value),
    )


def _quick(command: tuple[str, ...], known: list[Parameter], wanted: set[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Name and words of what most lines of a command have, unless it is there."""
    of_word = {word: it for it in known for word in it.words}
    words, found = list(QUICK.get(command, ())), []
    while words:
        one = of_word[words[0]]
        piece = tuple(words[: 1 if one.is_flag else 2])
        del words[: len(piece)]
        if one.is_multiple or one.name not in wanted:
            found.append((one.name, piece))
    return found


def _value(one: Parameter, luck: random.Random) -> str:
    good = luck.choice(DATA_SETS if one.is_argument and one.name == "name" else GOOD.get(one.name, HOSTILE))
    kind = luck.random()
    if kind < 0.78:
        return good
    if kind < 0.92:
        return luck.choice(HOSTILE)
    if kind < 0.96:
        return luck.choice(GOOD[luck.choice(sorted(GOOD))])
    return luck.choice(
        (good + " ", "-" + good, good + "%", good * 2, good.upper(), f"{good},{good}", good[:-1], good + "²")
    )


def _written(one: Parameter, value: str, luck: random.Random) -> tuple[str, ...]:
    if one.is_argument:
        return (value,)
    word = luck.choice(one.words)
    if one.is_flag:
        return (word,)
    return (f"{word}={value}",) if word.startswith("--") and luck.random() < 0.3 else (word, value)


# -- which options the command's function reads -----------------------------------------------------------------------


class Reads:
    """Notes which parameters the function of a command reads: every use of a parameter in it becomes a call."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        for command in commands().values():
            self._watch(inspect.unwrap(command.callback))

    def _watch(self, function: Any) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition: Any = tree.body[0]
        inputs = {it.arg for it in (*definition.args.args, *definition.args.kwonlyargs)}
        definition.body = [_Watched(inputs).visit(it) for it in definition.body]
        for it in (*definition.args.args, *definition.args.kwonlyargs):
            it.annotation = None
        definition.args.defaults, definition.args.kw_defaults = [], [None] * len(definition.args.kwonlyargs)
        definition.decorator_list, definition.returns = [], None
        made: dict[str, Any] = {}
        exec(compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec"), made)
        function.__code__ = made[function.__name__].__code__
        function.__globals__["_noted"] = self._noted

    def _noted(self, name: str, value: Any) -> Any:
        self.names.add(name)
        return value


class _Watched(ast.NodeTransformer):
    """Replaces a use of a parameter by ``_noted(its name, it)``."""

    def __init__(self, inputs: set[str]) -> None:
        self.inputs = inputs

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id not in self.inputs:
            return node
        return ast.Call(ast.Name("_noted", ast.Load()), [ast.Constant(node.id), node], [])


# -- the folder -------------------------------------------------------------------------------------------------------


def make_world(folder: Path) -> None:
    """A folder with runs in every state, tables, vectors, and files of no kind."""
    from fuzz import _mentions

    with tempfile.TemporaryDirectory() as other:
        reading = Reading(Path(other).resolve(), ())
        folder.mkdir(parents=True)
        for name in ("whole", "searching", "training", "a.csv", "items.csv"):
            shutil.move(reading.folder / name, folder / name)
    with contextlib.chdir(folder):
        places = {"ITEMS": "items.csv"}
        model = [places.get(word, word) for word in (*ITEMS, *MODEL)]
        _must("train", "-o", "base", "--data", "a.csv", *model)
        shutil.copytree("base", "found")
        _must("search", "found", "--set", "iterations=5")
        _must("recommend", "whole", "-o", "lists.csv")
        _must("export", "whole", "--form", "user-vectors", "--to", "npz", "-o", "vectors")
        _must("export", "whole", "-o", "rule")
        _tables(Path())
        Path("mentions.csv").write_bytes(_mentions())
        Path("features.csv").write_text(FEATURES, encoding="utf-8")


def _must(*words: str) -> None:
    code, _, err = call(words)
    if code:
        raise RuntimeError(f"{words}: {err}")


def _tables(folder: Path) -> None:
    import numpy as np

    (folder / "prices.json").write_text('{"new users": 0.05}', encoding="utf-8")
    pairs = (folder / "a.csv").read_text(encoding="utf-8").splitlines()[1:]
    (folder / "clicks.csv").write_text("user_id,item_id\n" + "\n".join(pairs[::7]) + "\n", encoding="utf-8")
    rows = "".join(f"{item},k{item % 5}\n" for item in range(120))
    (folder / "categories.csv").write_text("item_id,category\n" + rows, encoding="utf-8")
    review = {"reviewText": "good strings, weak sound", "overall": 5.0, "unixReviewTime": 1400000000}
    reviews = [json.dumps({**review, "reviewerID": f"u{n}", "asin": f"i{n % 4}"}) for n in range(12)]
    (folder / "reviews.json").write_text("\n".join(reviews), encoding="utf-8")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_bytes(b"user_id,item_id\n")
    (folder / "noise.bin").write_bytes(random.Random(0).randbytes(3000))
    (folder / "folder").mkdir()
    generator = np.random.default_rng(0)
    for name, count in (("user", 160), ("item", 120)):
        np.save(folder / "vectors" / f"{name}.npy", generator.normal(size=(count, 4)).astype(np.float32))
        np.save(folder / "vectors" / f"{name}_bias.npy", generator.normal(size=count).astype(np.float32))
        ids = "".join(f"{number}\n" for number in range(count))
        (folder / "vectors" / f"{name}s.csv").write_text(ids, encoding="utf-8")


def look(folder: Path) -> Files:
    found: Files = {}
    for path in sorted(folder.rglob("*")):
        now = path.lstat()
        found[str(path.relative_to(folder))] = (
            now.st_size,
            0 if path.is_dir() else now.st_mtime_ns,
            now.st_ino,
            now.st_mode,
        )
    return found


class World:
    """A copy of the folder for one process, restored after a line that changed it."""

    def __init__(self, pristine: Path, folder: Path) -> None:
        self.pristine, self.folder = pristine, folder
        shutil.copytree(pristine, folder)
        self.files = look(folder)

    def changed(self) -> list[str]:
        """Paths that were made, removed, or have other contents; the size of a folder says nothing."""
        now = look(self.folder)
        moved = [name for name in {**self.files, **now} if self.files.get(name) != now.get(name)]
        return sorted(name for name in moved if name not in now or name not in self.files or self._differs(name))

    def _differs(self, name: str) -> bool:
        paths = (self.pristine / name, self.folder / name)
        if any(path.is_dir() for path in paths):
            return not all(path.is_dir() for path in paths)
        return len({hashlib.sha256(path.read_bytes()).digest() for path in paths}) > 1

    def restore(self) -> None:
        now = look(self.folder)
        for name in sorted((name for name in now if self.files.get(name) != now[name]), reverse=True):
            path = self.folder / name
            if name in self.files and path.is_dir() and (self.pristine / name).is_dir():
                continue
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        for name in self.files:
            path = self.folder / name
            if (self.pristine / name).is_dir():
                path.mkdir(exist_ok=True)
            elif not path.exists():
                shutil.copy2(self.pristine / name, path)
        self.files = look(self.folder)


# -- one line ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """code: the exit code, -1 for a traceback; faults: what is wrong with it."""

    number: int
    command: str
    line: str
    code: int
    faults: tuple[str, ...] = ()


def one_line(line: Line, number: int, world: World, reads: Reads) -> tuple[Outcome, str, str]:
    """Run a line in this process; returns what it was, its stdout and its stderr."""
    reads.names.clear()
    os.chdir(world.folder)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():  # shows a warning again that an earlier line has shown
            code, out, err = call(line.words)
    except KeyboardInterrupt:
        code, out, err = -1, "", "KeyboardInterrupt: outside of the command"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    changed = world.changed()
    faults = tuple(judged(line, code, err, changed, reads.names))
    if changed:
        world.restore()
    return Outcome(number, " ".join(line.command), str(line), code, faults), out, err


def _crash(err: str) -> str:
    """Where the error was raised that the last guard has turned into a sentence; its log is removed."""
    found = re.search(r"with the log (\S+)", err)
    if found is None:
        return ""
    log = Path(found[1])
    places = [it.strip() for it in log.read_text(encoding="utf-8").splitlines() if "recprism/" in it and " line " in it]
    log.unlink()
    return places[-1] if places else ""


def judged(line: Line, code: int, err: str, changed: list[str], read: set[str]) -> Iterator[str]:
    last = next(iter(reversed(err.strip().splitlines())), "")
    if code not in (0, 1, 2, 130):
        where = [it.strip() for it in err.splitlines() if "recprism/" in it and it.strip().startswith("File")]
        yield f"traceback: {last} | {where[-1] if where else ''}"
        return
    if "Traceback" in err or "error: unexpected " in err:
        yield f"traceback: {last} | {_crash(err)}"
    if "Warning" in err:
        yield f"warning: {next(it for it in err.splitlines() if 'Warning' in it)}"
    sentence = err[err.find("error:") :].rstrip("\n") if "error:" in err else ""
    if code == 2 and not sentence:
        yield f"refused without a sentence: {last}"
    if "\n" in sentence or sentence.count("error: ") > 1:
        yield f"more than one line: {sentence[:200]!r}"
    if code == 2 and changed:
        yield f"refused, and changed {', '.join(changed[:5])}"
    if "labels.jsonl" in changed:  # the labels were asked, which counts whatever came of it
        changed = [it for it in changed if not it.endswith(("labels.jsonl", "events.jsonl"))]
    if code == 1 and sentence and any((it in GIVEN_WORLD) for it in {name.split("/")[0] for name in changed}):
        yield f"failed, and changed {', '.join(changed[:5])}"
    if code == 0 and read and (unread := line.given - read):  # --help reads nothing
        yield f"ignored: {', '.join(sorted(unread))}"
    if code == 0 and read and line.twice:
        yield f"one of two values is ignored: {', '.join(sorted(line.twice))}"
    if code == 0 and read and line.nonsense:
        yield f"accepted nonsense for {', '.join(sorted(line.nonsense))}"


GIVEN_WORLD = {*RUNS, *TABLES, "vectors", "rule", "folder"}


def hold_back(home: Path) -> None:
    """No network, no listening, no browser, no input, another home; a limit on memory and on time."""
    import typer
    import uvicorn

    def refuse(*_words: Any, **_options: Any) -> Any:
        raise OSError(101, "Network is unreachable")

    def close(server: Any, **_options: Any) -> None:
        state = server.config.app.state
        (state.studio if hasattr(state, "studio") else state.service).close()

    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.create_connection = socket.getaddrinfo = refuse
    uvicorn.Server.run = close  # type: ignore[method-assign, assignment]
    typer.launch = lambda *_words, **_options: 0
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(HOME=str(home), RECPRISM_DATA=str(home))
    typer.main.get_command = functools.cache(typer.main.get_command)  # it takes longer than most lines
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


# -- all lines --------------------------------------------------------------------------------------------------------


def work(pristine: Path, folder: Path, numbers: list[int], seed: int, answers: Any) -> None:
    """In a process of its own: the lines with these numbers; folder: a new one for its files."""
    known, reads = grammar(), Reads()
    world = World(pristine, folder / "world")
    (folder / "home").mkdir()
    import recprism.service.app
    import recprism.studio.app  # noqa: F401 - loaded before memory is limited

    hold_back(folder / "home")
    for number in numbers:
        answers.put(("begins", number))
        outcome = one_line(make_line(number, seed, known), number, world, reads)[0]
        answers.put(("ended", outcome))
        if outcome.code in (-1, 130):  # Ctrl-C in an import leaves half a package, which later lines would meet
            return


class Worker:
    """A process with its share of the lines, started again where a line was interrupted or killed it."""

    def __init__(self, pristine: Path, folder: Path, numbers: list[int], seed: int) -> None:
        self.folder = folder
        self.context, self.pristine, self.left, self.seed = (
            multiprocessing.get_context("spawn"),
            pristine,
            numbers,
            seed,
        )
        self.at: int | None = None
        self._start()

    def _start(self) -> None:
        self.answers, self.heard, self.at = self.context.Queue(), time.monotonic(), None
        own = Path(tempfile.mkdtemp(dir=self.folder))
        self.process = self.context.Process(target=work, args=(self.pristine, own, self.left, self.seed, self.answers))
        self.process.start()

    def step(self) -> list[Outcome]:
        """What has ended since the last step."""
        found: list[Outcome] = []
        with contextlib.suppress(queue.Empty):
            while True:
                kind, what = self.answers.get(timeout=0.05)
                self.heard = time.monotonic()
                if kind == "begins":
                    self.at = what
                    continue
                self.at = None
                self.left = self.left[1:]
                found.append(what)
        if self.process.is_alive() and time.monotonic() - self.heard > STUCK:
            self.process.kill()
            self.process.join()
        if not self.process.is_alive() and self.left and not found:
            if self.at is None and self.process.exitcode == 0:
                self._start()
                return found
            if self.at is None:
                raise SystemExit(f"a process ended with {self.process.exitcode} outside of any line")
            line = make_line(self.at, self.seed, grammar())
            fault = f"the process ended with {self.process.exitcode} (killed after {STUCK:g} s, or died)"
            found.append(Outcome(self.at, " ".join(line.command), str(line), -1, (fault,)))
            self.left = self.left[1:]
            if self.left:
                self._start()
        return found


def fuzz(pristine: Path, lines: int, *, seed: int = 0, jobs: int = 1) -> Iterator[Outcome]:
    """Run lines 0 to ``lines``."""
    with tempfile.TemporaryDirectory(prefix="recprism-lines-") as name:
        folder = Path(name).resolve()
        workers = [Worker(pristine, folder, list(range(job, lines, jobs)), seed) for job in range(min(jobs, lines))]
        try:
            while any(worker.left for worker in workers):
                for worker in workers:
                    yield from worker.step()
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.join()


def table(outcomes: list[Outcome]) -> str:
    """Lines by command and exit code."""
    codes = sorted({it.code for it in outcomes})
    counts = collections.Counter((it.command, it.code) for it in outcomes)
    rows = [f"| command | {' | '.join(str(code) for code in codes)} | faults |", "|---" * (len(codes) + 2) + "|"]
    for command in sorted({it.command for it in outcomes}):
        bad = sum(bool(it.faults) for it in outcomes if it.command == command)
        rows.append(f"| {command} | {' | '.join(str(counts[command, code]) for code in codes)} | {bad} |")
    return "\n".join(rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--line", type=int, help="this line alone, with what it says")
    options.add_argument(
        "--world", type=Path, help="make the folder in which the lines run, or use the one that is there"
    )
    options.add_argument("--log", type=Path, help="one line of JSON for each fault, as it is found")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        pristine = given.world.resolve() if given.world else Path(made).resolve() / "pristine"
        if not pristine.exists():
            make_world(pristine)
        if given.line is not None:
            line = make_line(given.line, given.seed, grammar())
            world = World(pristine, Path(made).resolve() / "world")
            (Path(made) / "home").mkdir()
            hold_back(Path(made) / "home")
            outcome, out, err = one_line(line, given.line, world, Reads())
            sys.stdout.write(f"{outcome.line}\n{out}{err}exit code {outcome.code}\n{outcome.faults}\n")
            sys.exit(bool(outcome.faults))
        outcomes = []
        with contextlib.suppress(KeyboardInterrupt):  # the table then has the lines so far
            for it in fuzz(pristine, given.lines, seed=given.seed, jobs=given.jobs):
                outcomes.append(it)
                if len(outcomes) % 500 == 0:
                    sys.stderr.write(f"{len(outcomes)} lines\n")
                if it.faults and given.log is not None:
                    with given.log.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(vars(it)) + "\n")
    sys.stdout.write(table(outcomes) + "\n\n")
    bad = sorted((it for it in outcomes if it.faults), key=lambda it: it.faults)
    for it in bad:
        sys.stdout.write(f"{it.number}: {it.line}\n    {'; '.join(it.faults)}\n")
    sys.stdout.write(f"{len(outcomes)} lines, {len(bad)} with a fault\n")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
