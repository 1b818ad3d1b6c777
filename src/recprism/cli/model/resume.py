"""recprism resume: continue an interrupted training or search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from recprism.cli import _options as options
from recprism.cli._values import mlflow_sink
from recprism.cli.model.train import train_and_print
from recprism.cli.paper.search import print_search, search_with_progress


def resume(
    run_directory: Annotated[Path, options.run_argument("A run whose training or search was interrupted.")],
    name: options.ResultName = None,
    mlflow: options.Mlflow = None,
    as_json: options.AsJson = False,
) -> None:
    """Continue an interrupted training or search with its own settings.

    The work continues from its last checkpoint. It ends with the same bits as without the interruption. The search
    for a named result needs its name.

    Examples:

    - `recprism resume runs/gcn`
    - `recprism resume runs/x --name players`
    """
    from recprism.cmb.jobs.search import interrupted_search
    from recprism.runs.lock import held
    from recprism.runs.parts.stage import SEARCH, TRAINING
    from recprism.runs.run import Run

    run, sink = Run.open(run_directory), mlflow_sink(mlflow)
    training = run.unfinished(TRAINING) or (None if run.is_trained() else run)
    if name is None and training is not None and run.unfinished(SEARCH) is None:
        train_and_print(training, sink, as_json)
        return
    run = interrupted_search(run.named(name))
    with held(run.path):
        model = search_with_progress(run, sink)
    print_search(run, model, None, as_json)
