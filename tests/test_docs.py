"""Every code block of every page in docs/ runs, and prints what the page says it prints.

A fence is one of:

    python     runs; the blocks of a page share one namespace, and a temporary folder
    output     directly below a python block: what that block prints
    console    lines with ``$ `` are commands; the lines below show what they print
    text       not code

and anything else fails the test. A comment in front of a fence says why it is not run: ``<!-- takes hours -->``,
``<!-- runs on -->`` (until it is stopped), ``<!-- needs data -->`` (files that are not here),
``<!-- needs PACKAGE -->`` (run where it is installed).

In what is shown, a line ``...`` stands for any lines, and ``...`` at the end of a line for the rest of it.

Another processor adds in another order, so training ends with slightly different vectors. Words must be the same. A
number may differ from the one on the page by 10 % of it. Small numbers may differ by more: by 2 if they are percentages
or have at most one decimal, by 0.02 if they have more decimals. docs/reliability.md says the same to readers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from markdown_it import MarkdownIt

import recprism
from recprism.cli import main
from recprism.metrics import METRICS

pytestmark = pytest.mark.docs
DOCS = Path(__file__).parents[1] / "docs"
SOURCE = Path(recprism.__file__).parent
TEMPLATES = {DOCS / name / "text.md" for name in ("case_study", "frontier", "paper")}  # tools/*_docs.py fill them
PAGES = sorted(page for page in {*DOCS.rglob("*.md")} - TEMPLATES if "_build" not in page.parts)
TUTORIAL = DOCS / "tutorial.md"
NEVER_RUN = ("takes hours", "needs data", "runs on")
NEAR, NEAR_IF_EXACT, NEAR_IF_COARSE = 0.1, 0.02, 2  # as stated above
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.(?P<decimals>\d+))?(?P<percent>\s?%)?")


@dataclass(frozen=True)
class Block:
    """One fence; ``mark`` is the comment in front of it, ``shown`` the output fence below it (None: none)."""

    page: Path
    line: int
    language: str
    code: str
    mark: str | None
    shown: str | None

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(DOCS.parent)}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        if self.mark is None or self.mark in NEVER_RUN:
            return self.mark
        return None if importlib.util.find_spec(self.mark.removeprefix("needs ")) else self.mark


def blocks_of(page: Path) -> list[Block]:
    """The fences of a page, output fences with the block that makes them."""
    tokens = [token for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")) if token.map]
    found = []
    for at, token in enumerate(tokens):
        if token.type not in ("fence", "code_block") or (token.info == "output" and _is_python(tokens, at - 1)):
            continue
        assert token.map
        mark = re.fullmatch(r"<!-- ((?:takes|needs|runs) \w+) -->\s*", tokens[at - 1].content) if at else None
        shown = tokens[at + 1].content if _is_python(tokens, at) and _is_output(tokens, at + 1) else None
        found.append(
            Block(page, token.map[0] + 1, token.info.strip(), token.content, mark.group(1) if mark else None, shown)
        )
    return found


def _is_python(tokens: list[Any], at: int) -> bool:
    return at >= 0 and tokens[at].type == "fence" and tokens[at].info == "python"


def _is_output(tokens: list[Any], at: int) -> bool:
    return at < len(tokens) and tokens[at].type == "fence" and tokens[at].info == "output"


def run_page(page: Path, folder: Path) -> None:
    """All blocks of a page, from top to bottom, in one folder and one namespace; a metric it registers is forgotten."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder), patch.dict(METRICS):
        for block in blocks_of(page):
            if block.why_not_run is None:
                RUNNERS[block.language](block, names)


def _run_python(block: Block, names: dict[str, Any]) -> None:
    code = compile("\n" * block.line + block.code, str(block.page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    if block.shown is not None:
        require_same(printed.getvalue(), block.shown, block.where)


def _run_console(block: Block, _: dict[str, Any]) -> None:
    for command, shown in sessions(block.code):
        printed, code = _run_here(command) if _is_plain_recprism(command) else _run_in_bash(command)
        assert code == 0, f"{block.where}: {command} ended with {code}\n{printed}"
        if shown.strip():
            require_same(printed, shown, f"{block.where}: {command}")


def _run_nothing(_block: Block, _names: dict[str, Any]) -> None:
    pass


RUNNERS = {"python": _run_python, "console": _run_console, "text": _run_nothing, "{toctree}": _run_nothing}


def sessions(code: str) -> Iterator[tuple[str, str]]:
    """(command, what is shown below it); a command continues after a backslash at the end of its line."""
    parts = re.split(r"^\$ ", code, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block begins with a command: $ ..."
    for part in parts[1:]:
        command, shown = re.fullmatch(r"((?:.*\\\n)*.*\n)((?:.*\n)*)", part).groups()  # type: ignore[union-attr]
        yield command.replace("\\\n", " ").strip(), shown


def _is_plain_recprism(command: str) -> bool:
    """One that can run in this process; not with MLflow, whose warnings about itself would be errors here."""
    return command.startswith("recprism ") and not re.search(r"[|<>;&$*`]|--mlflow", command)


def _run_here(command: str) -> tuple[str, int]:
    """The entry point itself, in this process: torch is loaded once."""
    words = shlex.split(command)
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(printed):
        before, sys.argv = sys.argv, words
        try:
            main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        finally:
            sys.argv = before
    return printed.getvalue(), code


def _run_in_bash(command: str) -> tuple[str, int]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        check=False,
    )
    return done.stdout, done.returncode


def require_same(printed: str, shown: str, where: str) -> None:
    ours, theirs = ([_words(line) for line in text.strip().splitlines()] for text in (printed, shown))
    assert _fits(ours, theirs), f"{where}: the page shows\n{shown}\nbut this was printed\n{printed}"


def _words(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def _fits(ours: list[str], theirs: list[str]) -> bool:
    if not theirs:
        return not ours
    if theirs[0] == "...":
        return any(_fits(ours[at:], theirs[1:]) for at in range(len(ours) + 1))
    return bool(ours) and _same_line(ours[0], theirs[0]) and _fits(ours[1:], theirs[1:])


def _same_line(ours: str, theirs: str) -> bool:
    if theirs.endswith("..."):
        theirs = theirs.removesuffix("...").rstrip()
        words = len(NUMBER.sub("#", theirs))
        numbers = len(NUMBER.findall(theirs))
        if NUMBER.sub("#", ours)[:words] != NUMBER.sub("#", theirs):
            return False
        return all(_near(a, b) for a, b in zip(_numbers(ours)[:numbers], _numbers(theirs), strict=True))
    same_words = NUMBER.sub("#", ours) == NUMBER.sub("#", theirs)
    return same_words and all(_near(a, b) for a, b in zip(_numbers(ours), _numbers(theirs), strict=True))


def _numbers(line: str) -> list[re.Match[str]]:
    return list(NUMBER.finditer(line))


def _near(ours: re.Match[str], theirs: re.Match[str]) -> bool:
    a, b = (float(re.sub(r"[,%\s]", "", found[0]).replace("−", "-")) for found in (ours, theirs))
    exact = theirs["decimals"] is not None and len(theirs["decimals"]) > 1 and not theirs["percent"]
    return abs(a - b) <= max(NEAR * abs(b), NEAR_IF_EXACT if exact else NEAR_IF_COARSE)


@pytest.fixture(scope="session")
def after_the_tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the tutorial was run; other pages use its run."""
    folder = tmp_path_factory.mktemp("tutorial")
    run_page(TUTORIAL, folder)
    return folder


def _has_code(page: Path) -> bool:
    return any(block.language in ("python", "console") and block.why_not_run is None for block in blocks_of(page))


def _name(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", [page for page in PAGES if _has_code(page)], ids=_name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, after_the_tutorial: Path) -> None:
    if page == TUTORIAL:
        return  # the fixture ran it
    shutil.copytree(after_the_tutorial / "runs", tmp_path / "runs")
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_says_what_it_is(page: Path) -> None:
    unknown = [block.where for block in blocks_of(page) if block.language not in RUNNERS]
    assert not unknown, f"mark these python, console or text, or say why they are not run: {unknown}"


def test_blocks_that_are_not_run_are_counted() -> None:
    left = [(block.where, why) for page in PAGES for block in blocks_of(page) if (why := block.why_not_run)]
    if left:
        pytest.skip(f"{len(left)} blocks of the docs were not run: " + ", ".join(f"{at} ({why})" for at, why in left))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere_on_a_forge_too(page: Path) -> None:
    """Sphinx checks the links of the site; this test checks those of the files in the repository."""
    targets = re.findall(r"\]\(([^()\s]+)\)", page.read_text(encoding="utf-8"))
    local = [target.partition("#")[0] for target in targets if "://" not in target and not target.startswith("#")]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("ndcg 0.1887\n", "ndcg 0.1890\n", True),
        ("ndcg 0.1887\n", "ndcg 0.2887\n", False),
        ("ndcg 0.1887\n", "recall 0.1887\n", False),
        ("a\nb\nc\n", "a\n...\nc\n", True),
        ("a\nb\nc\n", "a\n...\nd\n", False),
        ("a\nb\n", "a\n", False),
        ("a gain of 27.4 % and more\n", "a gain of 26.9 % ...\n", True),
        ("a gain of 27.4 % and more\n", "a gain of 36.9 % ...\n", False),
    ],
)
def test_what_is_shown_is_compared(printed: str, shown: str, same: bool) -> None:
    with contextlib.nullcontext() if same else pytest.raises(AssertionError):
        require_same(printed, shown, "here")


def test_every_public_name_has_its_place_in_the_reference() -> None:
    extension = runpy.run_path(str(DOCS / "_ext" / "from_the_code.py"))
    rooms = [import_module(f"recprism.{path.parent.name}") for path in SOURCE.glob("*/__init__.py")]
    pages = extension["names_on_pages"](DOCS)
    missing = [
        f"{room.__name__}.{name}"
        for room in (recprism, *rooms)
        for name in getattr(room, "__all__", ())
        if not name.startswith("_")
        and f"{room.__name__}.{name}" not in pages.values()
        and _defined_as(getattr(room, name)) not in pages
    ]
    assert not missing, f"add their rooms to docs/reference: {missing}"


def _defined_as(value: Any) -> str | None:
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else None


def test_every_room_has_a_page_and_a_row_in_the_reference() -> None:
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    for room in {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"common"}:  # it has no public name
        assert (DOCS / "reference" / f"{room}.md").exists(), room
        assert f"({room}.md)" in index, room
        assert re.search(rf"^{room}$", index, re.MULTILINE), f"{room} is not in the toctree"
