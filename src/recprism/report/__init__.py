"""One run, one page: gather what a run found, draw it, write it as a single file that needs nothing else."""

from recprism.report.gather import gather
from recprism.report.html import render
from recprism.report.page import write_report

__all__ = ["gather", "render", "write_report"]
