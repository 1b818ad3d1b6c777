"""Downloads: lists and vectors of a change, and the report."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from recprism.budget.diversified import as_into, serve
from recprism.data._ids import id_series
from recprism.models import Factors
from recprism.runs.run import Run
from recprism.studio.view import Change, View


def lists_file(view: View, change: Change) -> FileResponse:
    """Return a CSV with user_id, item_id and rank."""
    path = _folder() / f"lists-{_name(change)}.csv"
    users, places = np.nonzero(change.lists >= 0)
    numbers = change.lists[users, places]
    frame = {
        "user_id": id_series(view.factors.user_ids[users]),
        "item_id": id_series(view.factors.item_ids[numbers]),
        "rank": places + 1,
    }
    pl.DataFrame(frame).write_csv(path)
    return _sent(path, "text/csv")


def vectors_file(view: View, change: Change) -> FileResponse:
    """Return a zip of factors.safetensors and factors.json, which ``Factors.load`` reads; banned items are left out."""
    folder = _folder()
    banned = view.scenario.constraints.get("banned", [])
    vectors = _vectors(view, change)
    vectors.of_items(np.setdiff1d(np.arange(vectors.n_items), banned)).save(folder / "factors.safetensors")
    path = folder / f"vectors-{_name(change)}.zip"
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


def _name(change: Change) -> str:
    return f"{change.goal}-{'result' if change.point is None else change.point}"


def _vectors(view: View, change: Change) -> Factors:
    if change.result is not None:
        return change.result.factors
    if change.rule is None:
        return view.factors
    model = serve(view.scenario, change.goal, change.rule.trade_off, as_into(change.into)).model
    assert isinstance(model, Factors)
    return model


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="recprism-"))


def _sent(path: Path, media_type: str) -> FileResponse:
    """Send a file, then delete its folder."""
    cleared = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
    return FileResponse(path, media_type=media_type, filename=path.name, background=cleared)
