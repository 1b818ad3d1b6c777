"""Record what a fixed set of runs gives, and compare it after code has moved.

python tools/bits.py record bits.json
python tools/bits.py compare bits.json [--names names.json]

Everything goes through the command line, so that modules, classes and functions may change their names and places. The
figures of every ``--json`` answer, the tensors and tables of the run directories and the numbers on the report's page
are kept: numbers and words as they are, arrays as hashes of their bits. ``names.json`` maps old names to new ones, for
keys of JSON, metrics and file names that were renamed: {"sc": "subtopic_coverage"}. The exit code of
``compare`` is 1 if anything differs. Run both on the same machine with the same packages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
from safetensors.numpy import load_file

FAST = ["--set", "epochs=5", "--set", "dim=16"]
# Name of the step, words of the command. A command that is renamed is changed here, and its step keeps its name.
STEPS: dict[str, list[str]] = {
    "train": ["train", "-o", "films", *FAST, "--json"],
    "train lightgcn": ["train", "-o", "gcn", "--model", "lightgcn", *FAST, "--json"],
    "evaluate": ["evaluate", "films", "--json"],
    "audit": ["audit", "films", "--json"],
    "diversify": ["diversify", "films", "--budget", "0.1", "--goal", "subtopic_coverage", "--json"],
    "explain": ["explain", "films", "--draws", "49", "--json"],
    "explain user": ["explain", "films", "--user", "1", "--json"],
    "check": ["check", "films", "--max-ndcg-loss", "0.2", "--json"],
    "recommend": ["recommend", "films", "-o", "lists.parquet", "--json"],
    "recommend live": ["recommend", "films", "--live", "-o", "live.parquet", "--json"],
    "report": ["report", "films", "--draws", "49", "--json"],
    "export": ["export", "films", "--to", "npz", "-o", "vectors", "--json"],
    "item side": [
        "diversify",
        "films",
        "--budget",
        "0.1",
        "--goal",
        "subtopic_coverage",
        "--into",
        "item-vectors",
        "--name",
        "items",
        "--json",
    ],
    "players": ["search", "gcn", "--set", "iterations=10", "--json"],
    "erase": ["erase", "gcn", "--draws", "19", "--json"],
    "frontier": ["frontier", "gcn", "--goal", "subtopic_coverage", "--rivals", "mmr,xquad", "--json"],
}
CHANGING = re.compile(
    r"second|time|date|path|folder|version|fingerprint|made_from|^run$|sentence|^this report$|^what happened$",
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
    with tempfile.TemporaryDirectory() as folder:
        found = gather(Path(folder))
    if asked.what == "record":
        asked.file.write_text(json.dumps(found, indent=0, sort_keys=True), encoding="utf-8")
        print(f"{len(found):,} values -> {asked.file}")
        return 0
    names = json.loads(asked.names.read_text(encoding="utf-8")) if asked.names else {}
    return compare(renamed(json.loads(asked.file.read_text(encoding="utf-8")), names), found)


def gather(folder: Path) -> Bits:
    """Run every step in ``folder`` and read what it says and writes."""
    found: Bits = {}
    for name, words in STEPS.items():
        print(name, file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "recprism", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr}")
        found.update(flat(json.loads(done.stdout), f"{name}: "))
        files = sorted(path for path in folder.rglob("*") if path.suffix in READERS)
        for path in files:
            for key, value in READERS[path.suffix](path).items():
                found[f"{path.relative_to(folder).as_posix()} after {name}: {key}"] = value
    return found


def flat(value: Any, at: str) -> Bits:
    """Nested JSON as one level; what changes from run to run is left out."""
    if isinstance(value, dict):
        parts = [flat(own, f"{at}/{key}") for key, own in value.items() if not CHANGING.search(key)]
    elif isinstance(value, list):
        parts = [flat(own, f"{at}/{number}") for number, own in enumerate(value)]
    else:
        return {at: value}
    return {key: own for part in parts for key, own in part.items()}


def of_tensors(path: Path) -> Bits:
    return {name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in load_file(path).items()}


def of_table(path: Path) -> Bits:
    table = pl.read_parquet(path)
    return {name: hashlib.sha256(repr(table[name].to_list()).encode()).hexdigest()[:16] for name in table.columns}


def of_page(path: Path) -> Bits:
    """The numbers of the text, in order; scripts, dates and the tables of how the page was made are left out."""
    reader = _Text()
    reader.feed(path.read_text(encoding="utf-8").partition(">This report")[0])
    text = DATE.sub("", " ".join(reader.found))
    return {"numbers": hashlib.sha256(" ".join(NUMBER.findall(text)).encode()).hexdigest()[:16]}


READERS = {".safetensors": of_tensors, ".parquet": of_table, ".html": of_page}


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
    for key in other[:50]:
        print(f"  {key}: {before[key]} -> {now[key]}")
    return int(bool(other) or before.keys() != now.keys())


if __name__ == "__main__":
    sys.exit(main())
