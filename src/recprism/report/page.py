"""The page of a run, written."""

from __future__ import annotations

from pathlib import Path

from recprism.data._files import write_text
from recprism.data.progress import ProgressCallback
from recprism.data.split import Part
from recprism.report.content import Content
from recprism.report.gather import gather
from recprism.report.html import render
from recprism.runs.run import Run


def write_report(
    run: Run,
    path: str | Path | None = None,
    *,
    part: Part = "test",
    draws: int = 199,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Content:
    """Gather, draw and write; a reader never sees half a page.

    path: the HTML file, report.html in the run unless given
    draws: of each control; 0 runs none, and no factor is named
    """
    with run.unchanged():
        content = gather(run, part=part, draws=draws, seed=seed, on_step=on_step)
    write_text(path or run.report_path, render(content))
    return content
