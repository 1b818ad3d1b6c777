"""One run, one page: gather what a run found, draw it, write it as a single file that needs nothing else."""

from recprism.report.gather import gather
from recprism.report.html import render

__all__ = ["gather", "render"]
