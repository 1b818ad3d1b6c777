"""Record what a fixed set of runs gives, and compare it after code has moved.

python tools/bits.py record bits.json
python tools/bits.py compare bits.json [--names names.json]

Commands go through the command line, so that modules, classes and functions may change their names and places. Requests
need names of Python and HTTP: only bits_requests.py knows them. The figures of every ``--json`` answer, the answers to
requests, the tensors and tables of run directories and exports, and the numbers on the report's page are kept: numbers
and words as they are, arrays as hashes of their bits. A file is kept after each step that changed it. ``names.json``
maps old names to new ones, for keys of JSON, metrics and file names that were renamed: {"sc": "subtopic_coverage"}.
The exit code of ``compare`` is 1 if anything differs. Run both on the same machine with the same packages. Set
PYTHONPATH to the ``src`` of the tree to be recorded; the tool prints which tree it is. Kernels are compiled anew, in a
folder of their own: last digits can differ between the process that compiles a kernel and those that read it later.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from bits_inputs import write_inputs
from safetensors.numpy import load_file

FAST = ["--set", "epochs=5", "--set", "dim=16"]
SEARCH = ["search", "gcn", "--set", "iterations=5", "-m", "ndcg@10,subtopic_coverage@10,ilad@10"]
COMMAND, REQUESTS = ["-m", "recprism"], [str(Path(__file__).with_name("bits_requests.py"))]
# Name of the step, words of the command. A command that is renamed is changed here, and its step keeps its name.
STEPS: dict[str, list[str]] = {
    "train": ["train", "-o", "films", *FAST, "--json"],
    "train lightgcn": ["train", "-o", "gcn", "--model", "lightgcn", *FAST, "--json"],
    "evaluate": ["evaluate", "films", "--json"],
    "audit": ["audit", "films", "--json"],
    "diversify": ["diversify", "films", "--budget", "0.1", "--goal", "subtopic_coverage", "--json"],
    "explain": ["explain", "films", "--draws", "49", "--json"],
    "why": ["why", "films", "--user", "1", "--judged", "--json"],
    "check": ["check", "films", "--max-ndcg-loss", "0.2", "--json"],
    "recommend": ["recommend", "films", "--judged", "-o", "lists.parquet", "--json"],
    "recommend live": ["recommend", "films", "-o", "live.parquet", "--json"],
    "report": ["report", "films", "--draws", "49", "--json"],
    "export": ["export", "films", "--form", "user-vectors", "--to", "npz", "-o", "vectors", "--json"],
    "export rule": ["export", "films", "-o", "rule", "--json"],
    "players": ["search", "gcn", "--set", "iterations=10", "--json"],
    "erase": ["erase", "gcn", "--draws", "19", "--json"],
    "changes": ["changes", "gcn", "--user", "1", "--json"],
    "frontier": ["frontier", "gcn", "--goal", "subtopic_coverage", "--rivals", "mmr,xquad", "--json"],
    "search shared": [*SEARCH, "--preset", "shared", "--accuracy", "ndcg", "--name", "shared", "--json"],
    "search ucb": [*SEARCH, "--preset", "shared", "--set", "policy=ucb", "--name", "ucb", "--json"],
    "search random": [*SEARCH, "--preset", "shared", "--set", "policy=random", "--name", "random", "--json"],
    "search gradient": [
        *SEARCH,
        "--preset",
        "shared",
        "--goal",
        "ilad",
        "--set",
        "policy=gradient",
        "--name",
        "gradient",
        "--json",
    ],
    "search paper": [*SEARCH, "--preset", "paper", "--accuracy", "recall", "--name", "paper", "--json"],
    # All rows of the paper: epsilon-greedy, random and gradient, with the preset "paper".
    "reproduce": ["reproduce", "--dataset", "ml-1m", "--data-root", "data", "-o", "tables", "--json"],
    "features of reviews": ["features", "reviews.json", "-o", "reviewed", "--max-share", "0.9", "--json"],
    "features of tuples": ["features", "--tuples", "tuples.csv", "-o", "told", "--clusters", "3", "--json"],
    "features of attributes": ["features", "--attributes", "attributes.csv", "-o", "described", "--json"],
}
# Name of the step, name of the function in bits_requests.py.
REQUEST_STEPS = {"request time": "request_time", "service": "service"}
CHANGING = re.compile(
    r"(?<![a-z])(?:(?:milli)?seconds?|time|timestamp|date|path|folder|version|fingerprint|made_from|sentences?)(?![a-z])"
    r"|^run$|^loaded$|^this report$|^what happened$",
    re.IGNORECASE,
)
DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?")
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?\s?%?")
Bits = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", type=Path, help="JSON: old name -> new name")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as kernels:
        found = gather(Path(folder), {**os.environ, "PYTHONPATH": tree(), "NUMBA_CACHE_DIR": kernels})
    if asked.what == "record":
        asked.file.write_text(json.dumps(found, indent=0, sort_keys=True), encoding="utf-8")
        print(f"{len(found):,} values in {cpu_seconds():.0f} CPU seconds -> {asked.file}")
        return 0
    names = json.loads(asked.names.read_text(encoding="utf-8")) if asked.names else {}
    return compare(renamed(json.loads(asked.file.read_text(encoding="utf-8")), names), found)


def tree() -> str:
    """Find the folder of the package. Commands run in another folder, so they get it by its full path."""
    package = find_spec("recprism")
    if package is None or package.origin is None:
        raise SystemExit("recprism cannot be imported; set PYTHONPATH to the src of a tree")
    found = Path(package.origin).resolve().parents[1]
    print(f"the tree is {found}", file=sys.stderr)
    return str(found)


def gather(folder: Path, environment: dict[str, str]) -> Bits:
    """Run every step in ``folder`` and read what it says and writes."""
    found: Bits = {}
    files = Files(folder)
    write_inputs(folder)
    commands = {name: [*COMMAND, *words] for name, words in STEPS.items()}
    commands |= {name: [*REQUESTS, function] for name, function in REQUEST_STEPS.items()}
    for name, words in commands.items():
        print(name, file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        found.update(flat(json.loads(done.stdout), f"{name}: "))
        found.update((f"{file} after {name}: {key}", value) for file, key, value in files.changed())
    return found


def flat(value: Any, at: str) -> Bits:
    """Nested JSON as one level; what changes from run to run is left out."""
    if value in ({}, []):
        return {at: value}
    if isinstance(value, dict):
        parts = [flat(own, f"{at}/{key}") for key, own in value.items() if not CHANGING.search(key)]
    elif isinstance(value, list):
        parts = [flat(own, f"{at}/{number}") for number, own in enumerate(value)]
    else:
        return {at: value}
    return {key: own for part in parts for key, own in part.items()}


class Files:
    """The files below a folder that have figures; what is known of a file is not told again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[Path, tuple[tuple[int, int], Bits]] = {}

    def changed(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the file, the key and the value of whatever is new or different since the last call."""
        for path in sorted(path for path in self.folder.rglob("*") if path.suffix in READERS):
            state = (path.stat().st_mtime_ns, path.stat().st_size)
            before, values = self.known.get(path, (None, {}))
            if state == before:
                continue
            now = READERS[path.suffix](path)
            self.known[path] = (state, now)
            name = path.relative_to(self.folder).as_posix()
            yield from ((name, key, value) for key, value in now.items() if values.get(key) != value)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def of_tensors(path: Path) -> Bits:
    return {name: digest(array.tobytes()) for name, array in load_file(path).items()}


def of_arrays(path: Path) -> Bits:
    with np.load(path, allow_pickle=False) as stored:
        return {name: digest(stored[name].tobytes()) for name in stored.files if not CHANGING.search(name)}


def of_table(path: Path) -> Bits:
    table = pl.read_parquet(path)
    return {name: digest(repr(table[name].to_list()).encode()) for name in table.columns}


def of_page(path: Path) -> Bits:
    """The numbers of the text, in order; scripts, dates and the tables of how the page was made are left out."""
    reader = _Text()
    reader.feed(path.read_text(encoding="utf-8").partition(">This report")[0])
    text = DATE.sub("", " ".join(reader.found))
    return {"numbers": digest(" ".join(NUMBER.findall(text)).encode())}


READERS = {".safetensors": of_tensors, ".npz": of_arrays, ".parquet": of_table, ".html": of_page}


class _Text(HTMLParser):
    """What a page says outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.found.append(data)


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def renamed(bits: Bits, names: dict[str, str]) -> Bits:
    """Old names as new ones, in keys and in words."""

    def new(text: Any) -> Any:
        return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text) if isinstance(text, str) else text

    return {new(key): new(value) for key, value in bits.items()}


def compare(before: Bits, now: Bits) -> int:
    for title, keys in (("missing now", before.keys() - now.keys()), ("new", now.keys() - before.keys())):
        print(f"{title}: {len(keys):,}", *sorted(keys)[:20], sep="\n  ")
    other = sorted(key for key in before.keys() & now.keys() if before[key] != now[key])
    print(f"different: {len(other):,} of {len(before.keys() & now.keys()):,}")
    for key in other:
        print(f"  {key}: {before[key]} -> {now[key]}")
    return int(bool(other) or before.keys() != now.keys())


if __name__ == "__main__":
    sys.exit(main())
