"""How the command line speaks: tables and JSON on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from recprism.errors import BusyError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of a table.")]
Seed = Annotated[int, typer.Option(help="Same seed and device, same bits.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Engine = Annotated[
    str, typer.Option(help="local, or ray: on a Ray cluster, that of RAY_ADDRESS or one started here (extra [ray]).")
]
DataRoot = Annotated[
    str | None, typer.Option(help="Folder of named data sets; searched before RECPRISM_DATA.", show_default=False)
]

# Where output goes to a file or a pipe there is no screen to fit: tables keep their lines.
stdout = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)
stderr = Console(stderr=True, soft_wrap=True)


def configure_logging(verbose: bool) -> None:
    handler = RichHandler(console=stderr, show_path=False)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler], format="%(message)s")


def say(text: str) -> None:
    """A line for the person at the terminal."""
    stderr.print(text, markup=False, highlight=False)


def print_sentence(text: str) -> None:
    """A sentence that is itself what was asked for."""
    stdout.print(text, markup=False, highlight=False)


def complain(text: str) -> None:
    stderr.print("error:", text, style="bold red" if stderr.is_terminal else None, markup=False, highlight=False)


@contextmanager
def unless_busy() -> Iterator[None]:
    """What was found is shown even while another process writes into the run; that it was not kept is said."""
    try:
        yield
    except BusyError as busy:
        say(f"not kept: {busy}")


def say_removed(where: object, names: Sequence[str]) -> None:
    """What --overwrite is about to remove; nothing is said where there is nothing."""
    if names:
        say(f"--overwrite removes from {where}: {', '.join(names)}")


def next_step(*commands: str) -> None:
    """The last line of a command names what to try next, as it can be typed here: maybe no environment is active."""
    program = "recprism" if shutil.which("recprism") or sys.argv[0] == "recprism" else sys.argv[0]
    commands = tuple(re.sub(r"(^|&& )recprism ", rf"\1{program} ", command) for command in commands)
    for lead, command in zip(("next:", *("  or:",) * len(commands)), commands, strict=False):
        say(f"{lead} {command}")


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, numeric: Sequence[str] = ()) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_cell(cell)) for cell in row))  # a title may hold what rich takes for markup
    stdout.print(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    print_table(("", ""), [(name, value) for name, value in facts.items()])


def format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_cell(part)}" for name, part in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


@contextmanager
def progress_bar(*columns: Any) -> Iterator[Progress]:
    """A bar with the time left, on stderr, gone when it is done."""
    described = columns or (TextColumn("{task.fields[note]}"),)
    bar = (TextColumn("{task.description}"), BarColumn(), *described, TextColumn("left:"), TimeRemainingColumn())
    with Progress(*bar, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        yield progress


def download_columns() -> tuple[Any, ...]:
    return DownloadColumn(), TransferSpeedColumn()
