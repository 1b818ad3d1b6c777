"""recprism train: load, split and train into a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import (
    next_step,
    print_facts,
    print_json,
    print_title,
    progress_bar,
    say,
    say_categories,
    say_replaced,
)
from recprism.cli._values import data_config, mlflow_sink, run_config, typed_values
from recprism.common.checks import OneOf
from recprism.common.command_line import command_line

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset
    from recprism.data.split import Split
    from recprism.models import Factors
    from recprism.runs.config import RunConfig
    from recprism.runs.run import Run
    from recprism.runs.sinks import Sink

WITHOUT_CATEGORIES = (
    "the items have no categories, so the goals and metrics of categories (subtopic_coverage, alpha_ndcg, "
    "ilad_subtopics) and reasons by category will not work; ilad and catalogue_coverage need none. Name categories "
    "with --items FILE --category-column NAME, or --categories FILE"
)


def train(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The run directory to make.", show_default="runs/DATA-MODEL")
    ] = None,
    data: Annotated[str, typer.Option(help="A named data set, or a table of interactions.")] = "ml-latest-small",
    model: Annotated[str, typer.Option(help="bprmf, lightgcn or als (extra [adapters]).")] = "bprmf",
    model_preset: Annotated[
        str, typer.Option(help="default, or paper (the paper's fixed number of epochs).")
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the model, as in dim=64. Repeatable."),
    ] = None,
    metric: options.IndexMetric = "inner_product",
    split: options.SplitMethod = "random",
    preset: options.Preset = "default",
    threshold: options.Threshold = None,
    min_user: options.MinUser = None,
    min_item: options.MinItem = None,
    columns: options.ColumnMap = None,
    categories: options.CategoryTable = None,
    items: options.ItemTable = None,
    category_column: options.CategoryColumn = None,
    category_separator: options.CategorySeparator = None,
    category_level: options.CategoryLevel = None,
    data_root: options.DataRoot = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    overwrite: options.OverwriteRun = False,
    mlflow: options.Mlflow = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a base recommender into a run directory.

    The command loads, cleans and splits the data, then fits the model. The run directory holds everything: settings,
    split, vectors and events.

    Examples:

    - `recprism train`
    - `recprism train --data ml-1m --model lightgcn -o runs/gcn`
    - `recprism train --data my.csv --column item_id=sku --set dim=64 --set epochs=30`
    """
    from recprism.data.split import METHODS

    OneOf(tuple(METHODS)).read("--split", split)
    sink = mlflow_sink(mlflow)
    chosen = data_config(
        data,
        preset=preset,
        threshold=threshold,
        min_user=min_user,
        min_item=min_item,
        columns=columns,
        categories=categories,
        items=items,
        category_column=category_column,
        category_separator=category_separator,
        category_level=category_level,
        data_root=data_root,
    )
    config = run_config(
        seed=seed,
        device=device,
        data=chosen,
        split={"method": split},
        model={"name": model, "preset": model_preset, "metric": metric, "settings": typed_values(settings, "--set")},
    )
    run = start_run(
        output or Path("runs") / f"{Path(data).stem.replace(':', '-')}-{model}", config, overwrite=overwrite
    )
    train_and_print(run, sink, as_json)


def train_and_print(run: Run, sink: Sink | None, as_json: bool) -> None:
    """Train the model of a run that has begun, and print its settings."""
    from recprism.runs.lock import held
    from recprism.runs.sinks import followed

    with held(run.path), followed(run, sink):
        factors = train_with_progress(run)
    if as_json:
        print_json({"run": str(run.path), **factors.settings})
    else:
        print_title(f"trained {run.config.model.name}")
        print_facts(
            {"run": str(run.path), **{name: value for name, value in factors.settings.items() if value is not None}}
        )
    next_step(run.command("audit"), run.command("evaluate"))


def start_run(path: Path, config: RunConfig, *, overwrite: bool) -> Run:
    """Make a new run with its data, and print what the data hold."""
    from recprism.runs.jobs.train import start
    from recprism.runs.run import Run

    Run(path).require_free(overwrite=overwrite)
    if overwrite:
        say_replaced(path, Run(path).replaced(everything=True))

    def show(dataset: Dataset, split: Split) -> None:
        categories = dataset.categories
        parts = f"{len(split.train):,} train, {len(split.validation):,} validation, {len(split.test):,} test"
        without = f", {categories.items_without:,} items without any" if categories.items_without else ""
        size = f"{split.n_users:,} users, {split.n_items:,} items, {len(categories)} categories{without}"
        say(f"    {config.data.source}: {size}; {parts}")
        if dataset.category_source:
            say_categories(dataset.category_summary)
        if not len(categories):
            say(f"warning: {WITHOUT_CATEGORIES}")

    return start(path, config, overwrite=overwrite, on_data=show)


def train_with_progress(run: Run) -> Factors:
    """Train, and show loss, validation and the time left."""
    from recprism.models.training import Epoch
    from recprism.runs.jobs.train import train as train_run

    name = run.config.model.name
    with progress_bar() as progress:
        task = progress.add_task(f"training {name}", total=None, note="")

        def show(epoch: Epoch) -> None:
            note = f"loss {epoch.loss:.4f}" + (
                "" if epoch.validation is None else f", validation {epoch.validation:.4f}"
            )
            progress.update(task, completed=epoch.epoch, total=epoch.epochs, note=note)

        try:
            return train_run(run, show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"continue with: {command_line('resume', run.path)}") from None
