"""Exports the result of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recprism.common.log import phase
from recprism.common.progress import ProgressCallback
from recprism.forms.form import Form, Written, default_form, form_named
from recprism.runs.run import Run


@phase("exporting", __name__)
def export_run(
    run: Run,
    folder: str | Path | None = None,
    form: str | None = None,
    *,
    on_step: ProgressCallback | None = None,
    **options: Any,
) -> tuple[Form, Path, Written]:
    """Write the rule of a run, or what it is compiled into for live lists.

    Args:
        run: Trained, and perhaps diversified.
        folder: The folder to write; by default one in the run.
        form: As in :meth:`recprism.Result.export`.
        on_step: Receives progress.
        **options: Of the form.

    Returns:
        The form, the folder, and what was written.
    """
    found = run.model_or_result()
    chosen = form_named(form or default_form(found.rule is not None), **options)
    where = run.export_path(chosen.name) if folder is None else Path(folder)
    return chosen, where, found.export(where, chosen, on_step=on_step)
