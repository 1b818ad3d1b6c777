"""Write the report of a run."""

from __future__ import annotations

from pathlib import Path

from recprism.common.files import write_text
from recprism.common.progress import ProgressCallback
from recprism.data.split import Part
from recprism.report.collect import gather
from recprism.report.content import Content
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
    """Collect the results of a run, draw them and write the page; a reader never sees half a page.

    Args:
        run: A trained run.
        path: The HTML file; by default report.html in the run.
        part: The part whose labels are used.
        draws: Draws of each control; 0 runs no controls, and no factor is named.
        seed: Seed of the controls.
        on_step: Receives progress.

    Returns:
        What the page says.
    """
    with run.unchanged():
        content = gather(run, part=part, draws=draws, seed=seed, on_step=on_step)
    write_text(path or run.report_path, render(content))
    return content
