"""Mutated and made-up files for every reader: an answer or one sentence, never a traceback, a hang or a memory hog.

python tools/faults/fuzz.py --cases 100000      the long run
python tools/faults/fuzz.py --seed 7 --reader csv --cases 1   one case again

Each case is a valid file that was harmed (four of five) or plain noise. It is read in a process that may take 1 GiB
more than it has at the start, with an alarm after two seconds of processor time. What is not a RecprismError counts as
a fault, and so does a message of more than one line.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 2.0
MEMORY = 2**30
LARGEST = 2**20
Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Reader:
    """A reader: a folder with valid files, which of them is harmed, and how the folder is read."""

    name: str
    files: dict[str, bytes]
    harmed: str
    read: Read


@dataclass(frozen=True)
class Fault:
    reader: str
    seed: int
    what: str


# -- the readers ------------------------------------------------------------------------------------------------------


def readers(run: Path) -> Iterator[Reader]:
    """Every reader with valid files; run: a run directory with everything in it."""
    from recprism.cmb.text.feature_files import read_attributes, read_mentions
    from recprism.cmb.text.reviews import read_reviews
    from recprism.data import load_files
    from recprism.forms.rule_file import RuleFile
    from recprism.forms.vectors import load_export
    from recprism.models import Factors
    from recprism.models.adapters.arrays import from_files
    from recprism.runs.config import read_config
    from recprism.runs.jobs.list_files import SideFiles, audit_lists
    from recprism.runs.run import Run

    table = b"user_id,item_id,rating,timestamp\n" + b"".join(
        f"{u},{i},{1 + (u * i) % 5},{100 + i}\n".encode() for u in range(12) for i in range(u % 5, 25, 3)
    )
    items = b"item_id,title,genres\n" + b"".join(f'{i},"Film {i}, the",A|B{i % 3}\n'.encode() for i in range(25))
    inter = table.replace(b",", b"\t").replace(
        b"user_id\titem_id\trating\ttimestamp", b"user_id:token\titem_id:token\trating:float\ttimestamp:float"
    )
    review = {"reviewText": "good strings, weak sound", "overall": 5.0, "unixReviewTime": 1400000000}
    reviews = "\n".join(json.dumps({**review, "reviewerID": f"u{n}", "asin": f"i{n % 4}"}) for n in range(12)).encode()
    lists = b"user_id,item_id,rank\n" + b"".join(f"{u},{u + r},{r}\n".encode() for u in range(9) for r in range(1, 6))

    def with_items(path: Path) -> Any:
        return load_files(path / "a.csv", items=path / "items.csv", category_column="genres")

    yield Reader("csv", {"a.csv": table}, "a.csv", lambda path: load_files(path / "a.csv"))
    yield Reader("item table", {"a.csv": table, "items.csv": items}, "items.csv", with_items)
    yield Reader("gzip", {"a.csv.gz": gzip.compress(table)}, "a.csv.gz", lambda path: load_files(path / "a.csv.gz"))
    yield Reader("inter", {"a.inter": inter}, "a.inter", lambda path: load_files(path / "a.inter"))
    yield Reader("json lines", {"r.json": reviews}, "r.json", lambda path: read_reviews(path / "r.json"))
    packed = gzip.compress(reviews)
    yield Reader("json lines, gzip", {"r.json.gz": packed}, "r.json.gz", lambda path: read_reviews(path / "r.json.gz"))
    yield Reader(
        "lists", {"l.csv": lists}, "l.csv", lambda path: audit_lists(path / "l.csv", SideFiles(), None, bootstrap=0)
    )
    yield Reader("mentions", {"m.csv": _mentions()}, "m.csv", lambda path: read_mentions(path / "m.csv"))
    yield Reader("attributes", {"i.csv": items}, "i.csv", lambda path: read_attributes(path / "i.csv"))
    for name in ("parquet", "npy", "npz", "safetensors"):
        yield _array_reader(name, load_files, from_files)
    yield Reader("config", _of(run, "config.toml"), "config.toml", lambda path: read_config(path / "config.toml"))
    for name in ("factors.safetensors", "factors.json"):
        both = _of(run, "factors.safetensors", "factors.json")
        yield Reader(name, both, name, lambda path: Factors.load(path / "factors.safetensors"))
    whole = _all_of(run)
    for name in sorted(whole):
        yield Reader(f"run: {name}", whole, name, lambda path: _whole_run(Run.open(path)))
    ruled = _all_of(run.parent / "ruled")
    for name in ("certificate.json", "config.toml", "delta.safetensors", "result.json"):
        yield Reader(f"run with a rule: {name}", ruled, name, lambda path: _whole_run(Run.open(path)))
    for folder in sorted(path for path in run.iterdir() if path.is_dir()):
        exported = _all_of(folder)
        for name in sorted(exported):
            read = RuleFile.read if "rule.json" in exported else load_export
            yield Reader(f"{folder.name}: {name}", exported, name, read)


def _whole_run(run: Any) -> None:
    """All that a run directory holds, as commands read it."""
    run.split(), run.categories(), run.items(), run.factors()
    (
        run.events(),
        run.certificate(),
        run.explanation(),
        run.factors_explanation(),
        run.load_checkpoint(),
        run.load_path("subtopic_coverage"),
    )
    if run.is_diversified():
        run.load_result()
    if (run.path / "metrics.parquet").exists():
        run.metrics()


def _all_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _of(run: Path, *names: str) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in names}


def _mentions() -> bytes:
    rows = "".join(f"u{n},i{n % 4},sound,{(-1) ** n}\n" for n in range(12))
    return ("user_id,item_id,feature,sentiment\n" + rows).encode()


def _array_reader(kind: str, load_files: Any, from_files: Any) -> Reader:
    import io

    import numpy as np
    import polars as pl
    from safetensors.numpy import save

    generator = np.random.default_rng(0)
    user, item = generator.normal(size=(2, 9, 4)).astype(np.float32)
    if kind == "parquet":
        pairs = pl.DataFrame({"user_id": [n // 5 for n in range(60)], "item_id": [n % 7 for n in range(60)]})
        written = io.BytesIO()
        pairs.write_parquet(written)
        return Reader(kind, {"a.parquet": written.getvalue()}, "a.parquet", lambda path: load_files(path / "a.parquet"))
    files = {}
    for name, matrix in (("user", user), ("item", item)):
        written = io.BytesIO()
        if kind == "safetensors":
            written.write(save({"vectors": matrix}))
        elif kind == "npz":
            np.savez(written, vectors=matrix)
        else:
            np.save(written, matrix)
        files[f"{name}.{kind}"] = written.getvalue()

    def read(path: Path) -> Any:
        return from_files(str(path / f"user.{kind}"), str(path / f"item.{kind}"))

    return Reader(kind, files, f"user.{kind}", read)


# -- the harm ---------------------------------------------------------------------------------------------------------


def harm(content: bytes, luck: random.Random) -> bytes:
    """One to four mutations of valid contents, or noise."""
    if luck.random() < 0.2:
        return luck.randbytes(luck.choice((0, 1, 7, 100, 5000)))
    for _ in range(luck.randint(1, 4)):
        content = luck.choice(MUTATIONS)(bytearray(content), luck)
    return content[:LARGEST]


def _flip(content: bytearray, luck: random.Random) -> bytes:
    for _ in range(luck.randint(1, 8)):
        if content:
            content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    return bytes(content)


def _cut(content: bytearray, luck: random.Random) -> bytes:
    return bytes(content[: luck.randrange(len(content) + 1)])


def _remove(content: bytearray, luck: random.Random) -> bytes:
    first = luck.randrange(len(content) + 1)
    del content[first : first + luck.randint(1, 40)]
    return bytes(content)


def _insert(content: bytearray, luck: random.Random) -> bytes:
    at = luck.randrange(len(content) + 1)
    content[at:at] = luck.choice(NASTY)
    return bytes(content)


def _repeat(content: bytearray, luck: random.Random) -> bytes:
    first = luck.randrange(len(content) + 1)
    piece = bytes(content[first : first + luck.randint(1, 200)])
    content[first:first] = piece * luck.choice((1, 2, 50))
    return bytes(content)


def _number(content: bytearray, luck: random.Random) -> bytes:
    """A number somewhere becomes another: sizes and shapes stand in headers as digits."""
    at = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
    if at:
        place = luck.choice(at)
        content[place : place + 1] = luck.choice((b"9", b"0", b"-1", b"99999999999999999999", b"1e308", b"nan", b"0.5"))
    return bytes(content)


def _word(content: bytearray, luck: random.Random) -> bytes:
    """Eight bytes become an integer at a limit, as binary headers have them."""
    value = luck.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**64 - 1))
    at = luck.randrange(len(content) + 1)
    content[at : at + 8] = value.to_bytes(8, luck.choice(("little", "big")))
    return bytes(content)


MUTATIONS = (_flip, _cut, _remove, _insert, _repeat, _number, _word)
NASTY = (
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"\n",
    b"\r\n\r\n",
    b",,,,",
    "é\u202e\U0001f600".encode(),
    b"{" * 500,
    b"[" * 500,
    b'{"a":' * 200,
    b"= [[[[",
    b"inf",
    b"-" * 50,
    b"1" * 400,
    b"../../etc/passwd",
    b"\x1f\x8b\x08\x00",
    b"PAR1",
    b"\x93NUMPY",
)


# -- the run ----------------------------------------------------------------------------------------------------------


class TooSlowError(BaseException):
    """The alarm; no reader takes it for an error of its file."""


def one_case(reader: Reader, seed: int, folder: Path) -> Fault | None:
    """Harm, write, read; None where the reader answered or refused in one sentence."""
    from recprism.errors import RecprismError

    luck = random.Random(f"{reader.name} {seed}")
    _put({**reader.files, reader.harmed: harm(reader.files[reader.harmed], luck)}, folder)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader.read(folder)
    except RecprismError as refused:
        return Fault(reader.name, seed, f"more than one line: {refused}") if "\n" in str(refused).strip() else None
    except BaseException as fault:  # a PanicException of a Rust library is no Exception
        if isinstance(fault, KeyboardInterrupt):
            raise
        return Fault(reader.name, seed, f"{type(fault).__name__}: {fault}"[:300])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def _put(files: dict[str, bytes], folder: Path) -> None:
    for left in folder.iterdir():  # of another reader
        if left.is_file() and left.name not in files:
            left.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _alarm(_number: int, _frame: Any) -> None:
    raise TooSlowError(f"still reading after {SECONDS:g} s")


def work(run: Path, names: list[str], first: int, cases: int, answers: Any) -> None:
    """In a process of its own: the same number of cases for each reader."""
    signal.signal(signal.SIGPROF, _alarm)
    chosen = [reader for reader in readers(run) if not names or reader.name in names]
    folder = Path(tempfile.mkdtemp(prefix="recprism-fuzz-"))
    try:
        for reader in chosen:  # what is compiled or imported on first use is not the file's doing
            _put(reader.files, folder)
            reader.read(folder)
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        for number in range(cases):
            reader = chosen[number % len(chosen)]
            answers.put(("begins", reader.name, first + number))
            answers.put(("ended", one_case(reader, first + number, folder), reader.name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fuzz(run: Path, cases: int, *, seed: int = 0, names: list[str] | None = None) -> tuple[dict[str, int], list[Fault]]:
    """How many cases each reader saw, and what went wrong; a reader that ends the process is a fault, too."""
    seen: collections.Counter[str] = collections.Counter()
    faults: list[Fault] = []
    context, done = multiprocessing.get_context("spawn"), 0
    while done < cases:
        answers = context.Queue()
        process = context.Process(target=work, args=(run, names or [], seed + done, cases - done, answers))
        process.start()
        last = None
        while process.is_alive() or not answers.empty():
            try:
                kind, what, of = answers.get(timeout=0.2)
            except Exception:  # queue.Empty, or half a message of a process that died
                continue
            if kind == "begins":
                last = (what, of)
                continue
            done, last = done + 1, None
            seen[of] += 1
            faults += [what] if what is not None else []
        process.join()
        if last is not None:
            faults.append(Fault(*last, f"the process ended with {process.exitcode}"))
            seen[last[0]] += 1
            done += 1
        elif process.exitcode and done < cases:
            raise SystemExit(f"the fuzzing process ended with {process.exitcode} outside of any case")
    return dict(seen), faults


def valid_run(folder: Path) -> Path:
    """A small run with everything that a run can hold, exports in it, and a run with a rule beside it."""
    import numpy as np

    from recprism.cmb import CMB
    from recprism.data import load_files
    from recprism.models import BPRMF
    from recprism.result.result import Result
    from recprism.runs.config import BudgetConfig, DiversifyConfig, RunConfig
    from recprism.runs.jobs.diversify import diversify_within
    from recprism.runs.jobs.export import export_run
    from recprism.runs.jobs.train import evaluate_run
    from recprism.runs.run import Run
    from recprism.runs.stored_path import stored_path

    generator = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    pairs = sorted({(int(u), int(i)) for u, i in generator.integers(0, (30, 40), (700, 2))})
    (folder / "a.csv").write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u, i in pairs), encoding="utf-8")
    rows = "".join(f"{i},Film {i},k{i % 4}|k{i % 3}\n" for i in range(40))
    (folder / "items.csv").write_text("item_id,title,kind\n" + rows, encoding="utf-8")
    data = load_files(folder / "a.csv", items=folder / "items.csv", category_column="kind")
    split = data.split(seed=0)
    run = Run.create(folder / "run", RunConfig())
    run.save_data(data, split)
    run.event("data", name="made")
    run.save_factors(BPRMF(epochs=1, dim=4).fit(split, seed=0, device="cpu"))
    shutil.copytree(run.path, folder / "ruled")
    ruled = Run.open(folder / "ruled")
    within = BudgetConfig(goal="subtopic_coverage+shown_often", budgets={"ndcg@10": 0.9}, confidence=0.5)
    if not diversify_within(ruled, within).is_changed:
        raise RuntimeError("no rule was certified")
    export_run(ruled, run.path / "export-rule", histories=True)
    run.set_diversify(DiversifyConfig(settings={"iterations": 2}))
    search = CMB(iterations=2, device="cpu").fit(run.factors(), split, data.categories)
    run.save_result(Result.of_vectors(run.problem(), search.changed()))
    run.save_certificate({"certificate": {"sentence": "made", "last": None, "points": []}})
    run.save_explanation({"verdict": None})
    run.save_factors_explanation({"verdict": None})
    run.save_checkpoint({"a": np.zeros(3, np.float32)}, {"epoch": 1})
    run.save_metrics(evaluate_run(run, bootstrap=0).to_frame())
    stored_path(run, "subtopic_coverage")
    for to in ("npz", "safetensors", "parquet", "csv", "faiss"):
        export_run(run, run.path / f"export-{to}", "vectors", to=to)
    return run.path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--reader", action="append")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, started = valid_run(Path(folder)), time.perf_counter()
        seen, faults = fuzz(run, given.cases, seed=given.seed, names=given.reader)
    for fault in faults:
        sys.stdout.write(f"{fault.reader}, seed {fault.seed}: {fault.what}\n")
    rate = sum(seen.values()) / (time.perf_counter() - started)
    sys.stdout.write(
        f"{sum(seen.values()):,} cases of {len(seen)} readers, {len(faults)} faults, {rate:.0f} a second\n"
    )
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
