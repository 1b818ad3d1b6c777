"""Downloads: lists and vectors of a change, and the report."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from recprism.common.ids import id_series
from recprism.forms.form import UserVectors
from recprism.models import Factors
from recprism.runs.run import Run
from recprism.studio.view import Change, View


def lists_file(view: View, change: Change, *, live: bool = True) -> FileResponse:
    """Return a CSV with user_id, item_id and rank: live lists, or the judged ones."""
    lists = change.context(live=True).rank(change.result.model)[0] if live else change.lists
    users, places = np.nonzero(lists >= 0)
    numbers = lists[users, places]
    frame = {
        "user_id": id_series(view.factors.user_ids[users]),
        "item_id": id_series(view.factors.item_ids[numbers]),
        "rank": places + 1,
    }
    return _sent(f"lists-{_name(change)}{'' if live else '-judged'}.csv", "text/csv", pl.DataFrame(frame).write_csv)


def vectors_file(view: View, change: Change) -> FileResponse:
    """Return a zip of factors.safetensors and factors.json, which ``Factors.load`` reads; banned items are left out."""
    vectors = _vectors(change)
    kept = vectors.of_items(np.setdiff1d(np.arange(vectors.n_items), view.problem.resolved.banned))

    def write(path: Path) -> None:
        kept.save(path.parent / "factors.safetensors")
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("factors.safetensors", "factors.json"):
                archive.write(path.parent / name, name)

    return _sent(f"vectors-{_name(change)}.zip", "application/zip", write)


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
    return f"{change.towards}-{'result' if change.point is None else change.point}"


def _vectors(change: Change) -> Factors:
    """Return the vectors of players or of the model; those of a rule are compiled for live lists."""
    model = change.result.model
    if isinstance(model, Factors):
        return model
    return UserVectors().compile(change.context(live=True), change.result.own_rule())


def _sent(name: str, media_type: str, write: Callable[[Path], None]) -> FileResponse:
    """Send what is written into a folder of its own, then delete the folder; an error deletes it, too."""
    folder = Path(tempfile.mkdtemp(prefix="recprism-"))
    try:
        write(folder / name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    cleared = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(folder / name, media_type=media_type, filename=name, background=cleared)
