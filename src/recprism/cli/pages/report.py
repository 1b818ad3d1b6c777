"""recprism report: one run, one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import given, refuse
from recprism.cli._output import print_json, print_sentence, print_title, progress_of_steps, say
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.data.split import Part as SplitPart
    from recprism.report.content import Content
    from recprism.runs.run import Run


def report(
    context: typer.Context,
    run_directory: Annotated[Path, options.run_argument("A run, diversified or only trained.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The HTML file.", show_default="RUN/report.html")
    ] = None,
    part: options.Part = "test",
    draws: options.Draws = 199,
    seed: options.Seed = 0,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a self-contained HTML report of a run.

    The page opens with what changes, what it costs, and what to do next. Then come three users, what drives the change,
    the front, and who pays. It needs no network, so you can send the file. A run that was not diversified gets an
    audit.

    Examples:

    - `recprism report runs/x`
    - `recprism report runs/x -o page.html --draws 99`
    """
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    if not run.is_diversified() and (idle := given(context).keys() & {"draws", "seed"}):
        refuse(f"--{min(idle)}", "for a run that was only trained", "for a diversified run")
    path = output or run.report_path
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name a file with -o")
    chosen = part_named(part)
    content = report_with_progress(run, path, part=chosen, draws=draws, seed=seed)
    size = path.stat().st_size
    if as_json:
        print_json({"run": str(run.path), "report": str(path), "bytes": size, **content.to_dict()})
        return
    print_title(f"{run.path}, on the {chosen} part")
    for statement in content.headline.statements:
        print_sentence(statement.text)
    for line in content.headline.next_steps:
        print_sentence(f"Next: {line}")
    print_sentence(f"{path}: {size / 1e6:.1f} MB, needs no network")
    say(f"open {path} in a browser")


def report_with_progress(run: Run, path: Path, *, part: SplitPart = "test", draws: int = 199, seed: int = 0) -> Content:
    """Write the page and show its progress."""
    from recprism.report import write_report

    with progress_of_steps() as show:
        return write_report(run, path, part=part, draws=draws, seed=seed, on_step=show)
