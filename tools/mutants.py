"""Count the mutants that the quick tests kill: python tools/mutants.py [--jobs 2] [--json FILE] [--before FILE]

A mutant is one small fault in the source, such as a flipped comparison. ``tools/mutants.toml`` lists 100 of them, each
with the tests that should fail because of it. Tests that got weaker kill fewer of the same mutants.

Every job works on its own copy of the tree, so the checkout never changes. First, the tests must pass without mutants.
Then each mutant is put into the copy, and its tests run up to the first failure, without those that `make test` leaves
out. The doctests of the mutated file run, too. A mutant is killed if pytest reports a failing test. Three other ends
count as killed and are marked: an import that fails, a crash of the interpreter, and a run above the limit of CPU time.

The table goes to stdout, progress to stderr. The exit code is 1 if a mutant survives that the results of ``--before``
say was killed, and 2 if the mutants do not fit the source or the tests do not pass without them.

If NUMBA_CACHE_DIR is set, the compiled kernels of the source without mutants are kept there for the next run.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tools" / "mutants.toml"
LIMIT = 300  # CPU seconds of one run of pytest
PATIENCE = 4  # a run may take this many times as long by the clock, on a busy machine
PACKAGE = "src/recprism"
KERNELS = b"recprism.common.compile"  # the text that makes a file a kernel source, see src/recprism/common/compile.py
FAILED, IMPORT, CRASH, TIMEOUT, SURVIVED = "failed", "import", "crash", "timeout", "survived"

NO_TESTS = 5  # how pytest ends if it has nothing to run
# Runs pytest with a limit of CPU time: the first argument.
PYTEST = """
import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1]) + 5))
sys.exit(pytest.main(sys.argv[2:]))
"""


class MutantError(Exception):
    """The mutants do not fit the source or the tests; the message says which and why."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        number: Its place in the list, from 1.
        file: The file of the source.
        old: The text that is replaced; it must occur exactly once in the file.
        new: What replaces it.
        tests: Files and folders with the tests that should fail.
    """

    number: int
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What the tests did to a mutant.

    Attributes:
        number: Number of the mutant.
        file: The file of the source.
        state: "failed", "import", "crash", "timeout" or "survived".
        by: The first test that failed, if there is one.
        seconds: CPU time of the tests.
    """

    number: int
    file: str
    state: str
    by: str
    seconds: float

    @property
    def is_killed(self) -> bool:
        return self.state != SURVIVED


# -- the list ---------------------------------------------------------------------------------------------------------


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list, numbered from 1.

    Args:
        path: A TOML file with the table ``tests`` (name -> files and folders) and an array ``mutant`` (file, old, new
            and the name of its tests).

    Raises:
        MutantError: A mutant lacks a key, or names tests that the table does not have.
    """
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        return [
            Mutant(number, f"{PACKAGE}/{it['file']}", it["old"], it["new"], tuple(found["tests"][it["tests"]]))
            for number, it in enumerate(found["mutant"], 1)
        ]
    except KeyError as missing:
        raise MutantError(f"{path.name}: a mutant lacks {missing}, or it names tests that the table lacks") from None


def mutated(mutant: Mutant, source: str) -> str:
    """Return the source with the fault.

    Raises:
        MutantError: The old text does not occur exactly once, or the result is not valid Python.
    """
    name, times = f"mutant {mutant.number} ({mutant.file})", source.count(mutant.old)
    if times != 1:
        raise MutantError(f"{name}: {mutant.old!r} occurs {times} times; it must occur exactly once")
    changed = source.replace(mutant.old, mutant.new)
    try:
        ast.parse(changed)
    except SyntaxError as wrong:
        raise MutantError(f"{name}: {mutant.new!r} makes no valid Python ({wrong})") from None
    return changed


def require_fitting(mutants: Sequence[Mutant], tree: Path) -> None:
    """Raise an error unless all mutants apply to a tree, and all their tests exist there."""
    for mutant in mutants:
        if not (tree / mutant.file).is_file():
            raise MutantError(f"mutant {mutant.number}: {mutant.file} does not exist")
        mutated(mutant, (tree / mutant.file).read_text(encoding="utf-8"))
        for path in mutant.tests:
            if not (tree / path).exists():
                raise MutantError(f"mutant {mutant.number}: its tests {path} do not exist; tools/mutants.toml has them")


def chosen(mutants: Sequence[Mutant], only: Sequence[str]) -> list[Mutant]:
    """Return the mutants with the given numbers or parts of file names; all of them if none is given."""
    if not only:
        return list(mutants)
    return [it for it in mutants if any(one == str(it.number) if one.isdigit() else one in it.file for one in only)]


# -- copies of the tree -----------------------------------------------------------------------------------------------


def copy_tree(tree: Path, to: Path, tests_from: Path | None = None) -> None:
    """Copy the files that git knows or does not ignore, with the tests of another tree if one is given."""
    for source, is_wanted in ((tree, tests_from is None), (tests_from, True)):
        if source is None:
            continue
        command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            of_tests = name.startswith("tests/")
            if (source / name).is_file() and (is_wanted if of_tests else source is tree):
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, to / name)


@contextlib.contextmanager
def put_into(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Put a mutant into a copy, and take it out again."""
    path = copy / mutant.file
    source, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutated(mutant, source), encoding="utf-8")
    # Python reads a compiled file if time and size agree: every version needs a time of its own.
    os.utime(path, (times.st_atime, times.st_mtime + mutant.number))
    try:
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime))


# -- compiled kernels -------------------------------------------------------------------------------------------------


def kernel_folder(copy: Path, cache: Path) -> Path:
    """Return the folder of the compiled kernels of a copy, which depends on its sources."""
    command = [sys.executable, "-c", "from recprism.common import compile; print(compile.cache_folder())"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, cwd=copy, env=environment(copy, cache))
    return Path(made.stdout.strip())


def users_of(copy: Path, file: str) -> set[str]:
    """Return the modules that import a file, directly or through others, and the file itself: as ``rule.rule``."""
    sources = {path: path.read_text(encoding="utf-8") for path in (copy / PACKAGE).rglob("*.py")}
    names = {path: path.relative_to(copy / PACKAGE).with_suffix("").as_posix().replace("/", ".") for path in sources}
    imports: dict[str, set[str]] = {}
    for path, source in sources.items():
        found = imports.setdefault(names[path], set())
        for module, what in re.findall(r"from recprism\.([\w.]+) import (\([^)]*\)|[^\n]*)", source):
            found |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", what))}
    reached = {names[copy / file]}
    while more := {name for name, used in imports.items() if name not in reached and used & reached}:
        reached |= more
    return reached


def lend_kernels(made: Path, to: Path, copy: Path, file: str) -> None:
    """Copy compiled kernels that do not depend on a file. The others, with the fault, are compiled again.

    The name of compiled code is ``greedy.taken-rule.kernels-50.py311``, then the ending.
    """
    changed = users_of(copy, file)
    for path in made.iterdir():
        parts = re.match(r"(\w+)\.[^-]+-([\w.]+)-\d+\.", path.name)
        if parts is not None and f"{parts[2]}.{parts[1]}" not in changed:
            shutil.copy2(path, to / path.name)


# -- pytest -----------------------------------------------------------------------------------------------------------


def environment(copy: Path, cache: Path) -> dict[str, str]:
    more = {"PYTHONPATH": str(copy / "src"), "NUMBA_CACHE_DIR": str(cache)}
    return {name: it for name, it in os.environ.items() if name != "PYTEST_ADDOPTS"} | more


def left_out(tree: Path) -> str:
    """Return the markers of the tests that `make test` leaves out."""
    found = re.search(r"^REST\s*:= *(.+)$", (tree / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise MutantError(f"{tree}/Makefile: has no line `REST := ...` with the markers that `make test` leaves out")
    return found[1].strip()


def run_tests(copy: Path, tests: Sequence[str], cache: Path, limit: int) -> tuple[int, str, float]:
    """Run tests up to the first failure; return the exit code, what pytest printed, and the CPU seconds."""
    options = [
        "-x",
        "-q",
        "--doctest-modules",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-m",
        f"not ({left_out(copy)})",
        "-W",  # the doctests come from the source, where classes are no tests, whatever their names
        "ignore::pytest.PytestCollectionWarning",
    ]
    command = [sys.executable, "-c", PYTEST, str(limit), *options, *tests]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=copy,
            env=environment(copy, cache),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        done, waited = 0, 0.0  # not the time of the clock: if this process is stopped for a while, that does not count
        while not done:
            time.sleep(0.1)
            waited += 0.1
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if not done and waited > PATIENCE * limit:
                os.killpg(process.pid, signal.SIGKILL)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    return process.returncode, said, usage.ru_utime + usage.ru_stime


def require_passing(copy: Path, mutants: Sequence[Mutant], cache: Path, limit: int) -> None:
    """Raise an error unless all tests pass without mutants; the kernels that they use are compiled on the way."""
    files_of: dict[tuple[str, ...], set[str]] = {}
    for it in mutants:
        files_of.setdefault(it.tests, set()).add(it.file)
    for number, (tests, files) in enumerate(files_of.items(), 1):
        # Many mutants share these tests, and kernels are compiled: the limit is for all of that.
        code, said, seconds = run_tests(copy, [*tests, *sorted(files)], cache, 4 * limit)
        _say(f"without mutants {number} of {len(files_of)}: {' '.join(tests)}, {seconds:.0f} s")
        if code not in (0, NO_TESTS):
            print(said[-4000:], file=sys.stderr)
            raise MutantError(f"{' '.join(tests)}: the tests do not pass without mutants (pytest ended with {code})")


def outcome_of(copy: Path, mutant: Mutant, kernels: Path, limit: int) -> Outcome:
    """Run the tests of one mutant; ``kernels`` is the folder of the compiled kernels without mutants."""
    cache = kernels.parent
    with put_into(copy, mutant), tempfile.TemporaryDirectory() as own:
        if KERNELS in (copy / mutant.file).read_bytes():
            cache = Path(own)
            lend_kernels(kernels, kernel_folder(copy, cache), copy, mutant.file)
        code, said, seconds = run_tests(copy, [*mutant.tests, mutant.file], cache, limit)
    states = {
        0: SURVIVED,
        NO_TESTS: SURVIVED,  # all of them are left out
        1: FAILED,
        2: IMPORT,
        3: IMPORT,
        4: IMPORT,
        -signal.SIGXCPU: TIMEOUT,
        -signal.SIGKILL: TIMEOUT,
    }
    if code not in states and code > 0:
        raise MutantError(f"mutant {mutant.number}: pytest ended with {code}, which is no result\n{said[-2000:]}")
    first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    state = states.get(code, CRASH)
    return Outcome(mutant.number, mutant.file, state, first[1] if first else "", round(seconds, 1))


def run_all(
    mutants: Sequence[Mutant], tree: Path, *, tests_from: Path | None = None, jobs: int = 1, limit: int = LIMIT
) -> list[Outcome]:
    """Run the tests of all mutants.

    Args:
        mutants: The mutants.
        tree: The tree to mutate, which stays as it is.
        tests_from: Another tree with the tests to run; by default those of ``tree``.
        jobs: Number of mutants at a time.
        limit: CPU seconds for the tests of a mutant.

    Returns:
        What happened to each mutant, in the same order.

    Raises:
        MutantError: A mutant does not fit, or the tests do not pass without mutants.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            copy_tree(tree, Path(scratch) / f"copy-{number}", tests_from)
            copies.put(Path(scratch) / f"copy-{number}")
        cache = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(scratch) / "kernels").resolve()
        cache.mkdir(parents=True, exist_ok=True)
        first = Path(scratch) / "copy-0"
        require_fitting(mutants, first)
        kernels = kernel_folder(first, cache)
        require_passing(first, mutants, cache, limit)

        def one(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                found = outcome_of(copy, mutant, kernels, limit)
            finally:
                copies.put(copy)
            _say(f"{found.number} {found.file}: {found.state} {found.by} ({found.seconds:.0f} s)")
            return found

        with ThreadPoolExecutor(jobs) as workers:
            return list(workers.map(one, mutants))


# -- the command ------------------------------------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> str:
    """Return one line per mutant, and the sum."""
    marks = {FAILED: "", IMPORT: "[import] ", CRASH: "[crash] ", TIMEOUT: "[timeout] ", SURVIVED: "SURVIVED"}
    width = max((len(it.file) for it in outcomes), default=0)
    rows = [
        f"{it.number:3} {it.file:{width}} {it.seconds:6.1f} s  {marks[it.state]}{it.by if it.is_killed else ''}"
        for it in outcomes
    ]
    return "\n".join([*rows, f"killed {sum(it.is_killed for it in outcomes)} of {len(outcomes)}"])


def lost_since(before: Mapping[str, object], outcomes: Sequence[Outcome], mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return the mutants that were killed in earlier results and survive now; a mutant is known by its texts."""
    rows = before["mutants"]
    assert isinstance(rows, list)
    killed = {(it["file"], it["old"], it["new"]) for it in rows if it["state"] != SURVIVED}
    alive = {it.number for it in outcomes if not it.is_killed}
    return [it for it in mutants if it.number in alive and (it.file, it.old, it.new) in killed]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    about = argparse.ArgumentParser(description="Count the mutants that the quick tests kill.")
    about.add_argument("--jobs", type=int, default=1, help="number of mutants at a time (default: 1)")
    about.add_argument(
        "--only", action="append", default=[], metavar="N|NAME", help="a number, or a part of a file name"
    )
    about.add_argument(
        "--tree", type=Path, default=ROOT, help="another checkout to mutate and test (default: this one)"
    )
    about.add_argument("--tests-from", type=Path, help="a checkout whose tests replace those of the tree")
    about.add_argument("--limit", type=int, default=LIMIT, help=f"CPU seconds for one mutant (default: {LIMIT})")
    about.add_argument("--json", type=Path, help="write the results into this file")
    about.add_argument("--before", type=Path, help="earlier results; exit with 1 if one of their kills is lost")
    asked = about.parse_args()
    try:
        mutants = chosen(read_mutants(), asked.only)
        before = None if asked.before is None else json.loads(asked.before.read_text(encoding="utf-8"))
        outcomes = run_all(
            mutants, asked.tree.resolve(), tests_from=asked.tests_from, jobs=asked.jobs, limit=asked.limit
        )
    except (MutantError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(table(outcomes))
    if asked.json is not None:
        rows = [{**asdict(mutant), **asdict(it)} for mutant, it in zip(mutants, outcomes, strict=True)]
        killed = sum(it.is_killed for it in outcomes)
        found = {"killed": killed, "of": len(outcomes), "mutants": rows}
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lost = [] if before is None else lost_since(before, outcomes, mutants)
    for it in lost:
        print(f"killed before, survives now: {it.number} {it.file}: {it.old!r} -> {it.new!r}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
