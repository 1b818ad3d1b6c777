"""Downloads: lists and vectors at a point of a path, and the report."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from recprism.budget.diversified import serve, usual_form
from recprism.models import Factors
from recprism.runs.jobs.train import lists_to_frame
from recprism.runs.run import Run
from recprism.studio.view import View


def lists_file(view: View, goal: str, point: int) -> FileResponse:
    """Return a CSV with user_id, item_id, rank and score."""
    factors = _vectors(view, goal, point)
    items, scores = view.scenario.rank(factors, 10)
    folder = _folder()
    path = folder / f"lists-{goal}-{point}.csv"
    lists_to_frame(factors, np.arange(factors.n_users), items, scores).write_csv(path)
    return _sent(path, "text/csv")


def vectors_file(view: View, goal: str, point: int) -> FileResponse:
    """Return a zip of factors.safetensors and factors.json, which ``Factors.load`` reads; banned items are left out."""
    folder = _folder()
    banned = view.scenario.constraints.get("banned", [])
    vectors = _vectors(view, goal, point)
    vectors.of_items(np.setdiff1d(np.arange(vectors.n_items), banned)).save(folder / "factors.safetensors")
    path = folder / f"vectors-{goal}-{point}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("factors.safetensors", "factors.json"):
            archive.write(folder / name, name)
    return _sent(path, "application/zip")


def has_report(run: Run) -> bool:
    """Whether the run has a complete report."""
    path = run.report_path
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(-min(100, path.stat().st_size), os.SEEK_END)
        return file.read().rstrip().endswith(b"</html>")


def report_file(run: Run) -> FileResponse:
    """Return the page of ``recprism report`` as a download, because the studio's policy blocks inline scripts."""
    return FileResponse(run.report_path, media_type="application/octet-stream", filename=run.report_path.name)


def _vectors(view: View, goal: str, point: int) -> Factors:
    trade_off = view.path(goal).trade_offs[point]
    if not trade_off:
        return view.factors
    model = serve(view.scenario, goal, trade_off, usual_form(view.scenario, goal)).model
    assert isinstance(model, Factors)
    return model


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="recprism-"))


def _sent(path: Path, media_type: str) -> FileResponse:
    """Send a file, then delete its folder."""
    cleared = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
    return FileResponse(path, media_type=media_type, filename=path.name, background=cleared)
