"""The options and arguments that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._commands import With, Without
from recprism.cli._values import finite_number
from recprism.common.checks import LARGEST_SEED
from recprism.common.shares import Share, share
from recprism.errors import InputError

CATEGORIES = "Categories of the items"
CLEANING = "Cleaning"


def share_option(
    *names: str, help: str, low: float = 0.0, high: float = 1.0, show_default: bool | str = True, panel: str = ""
) -> typer.models.OptionInfo:
    """An option whose value is a share: 0.05 or 5%.

    Args:
        *names: As those of ``typer.Option``; none takes the parameter's name.
        help: The sentence of ``--help``.
        low: The least share allowed.
        high: The largest share allowed.
        show_default: As that of ``typer.Option``.
        panel: The panel of ``--help`` that shows the option.
    """

    def read(word: Share) -> float:
        try:
            return share(word, low=low, high=high)
        except InputError as problem:
            raise typer.BadParameter(str(problem)) from None

    found: typer.models.OptionInfo = typer.Option(
        *names, help=help, parser=read, metavar="SHARE", show_default=show_default, rich_help_panel=panel or None
    )
    return found


def number_option(*names: str, help: str, least: float, show_default: bool | str = True) -> typer.models.OptionInfo:
    """Declare an option that takes a finite number of at least ``least``."""

    def read(word: str | float) -> float:
        try:
            number = finite_number(str(word), str(word), "a number")
        except InputError as problem:
            raise typer.BadParameter(str(problem)) from None
        if number < least:
            raise typer.BadParameter(f"{word} is less than {least:g}.")
        return number

    found: typer.models.OptionInfo = typer.Option(
        *names, help=help, parser=read, metavar="NUMBER", show_default=show_default
    )
    return found


def goal_option(show_default: bool | str = True) -> typer.models.OptionInfo:
    """The option ``--goal``, with the default that the command has."""
    found: typer.models.OptionInfo = typer.Option(
        "--goal",
        metavar="GOAL",
        help="The metric to raise, or several, as in sc+ilad, or with weights, as in sc=2,ilad=1. There are "
        "subtopic_coverage (short: sc), alpha_ndcg, alpha_ndcg_relevant, err_ia, ilad_subtopics, ilad and "
        "catalogue_coverage (pc); for exposure: shown_often, shown_N_times, gini and exposure_entropy; and functions "
        "of one list, as module:name, with RECPRISM_IMPORT=module.",
        show_default=show_default,
    )
    return found


def certify_option(show_default: str = "validation, where there is one") -> typer.models.OptionInfo:
    """The option ``--certify-on``, with the default that the command has."""
    found: typer.models.OptionInfo = typer.Option(
        "--certify-on",
        help="The held-out part that certifies the budget: validation or test.",
        show_default=show_default,
    )
    return found


def run_argument(help: str) -> typer.models.ArgumentInfo:
    """The argument that names a run directory."""
    found: typer.models.ArgumentInfo = typer.Argument(metavar="RUN", help=help)
    return found


TrainedRun = Annotated[Path, run_argument("A run made by `recprism train` or `recprism import`.")]
DiversifiedRun = Annotated[Path, run_argument("A run that `diversify`, `refit` or `search` has changed.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of tables.")]
Seed = Annotated[int, typer.Option(help="The same seed and device give the same bits.", min=0, max=LARGEST_SEED)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
ExecutorName = Annotated[
    str, typer.Option(help="local, or ray: on a Ray cluster, that of RAY_ADDRESS or one started here (extra [ray]).")
]
DataRoot = Annotated[str | None, typer.Option(help="Folder of named data sets, searched before RECPRISM_DATA.")]
Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        metavar="URI",
        help="Log to this MLflow store as well, such as sqlite:///mlflow.db or http://HOST:5000 (extra [mlflow]).",
    ),
]

OwnGoal = Annotated[str | None, goal_option("the goal that the run was diversified for")]
Part = Annotated[str, typer.Option("--part", help="The held-out part that judges: validation or test.")]
Metrics = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--metrics",
        metavar="NAMES",
        help="What to measure, with commas between, as in ndcg@10,sc@20; or paper.",
        show_default="a dozen at 10",
    ),
]
Draws = Annotated[int, typer.Option(help="Draws of each control; 0 runs none.", min=0)]
Guards = Annotated[
    list[str] | None,
    typer.Option(
        "--guard",
        metavar="METRIC=SHARE",
        help="Another metric and the share of it that may be lost, as in recall@20=2%. Repeatable.",
    ),
]
Confidence = Annotated[float, share_option(help="Confidence of the certificate.", low=0.5, high=0.9999)]
Approximate = Annotated[
    bool,
    typer.Option(
        "--approximate",
        help="Certify by the paired t test. It needs fewer users, but its confidence is approximate: "
        "a few users who lose much may be missing among those that judge.",
    ),
]
ClusterTable = Annotated[
    Path | None,
    typer.Option(
        "--clusters",
        metavar="FILE",
        help="Users who belong together, such as households: a table with user_id and cluster. The certificate then "
        "counts clusters, which are independent, and not users. Users that are not in it are on their own.",
        show_default="users are independent",
    ),
]
K = Annotated[int, typer.Option("-k", help="Length of the lists.", min=1)]
ListPart = Annotated[
    str | None,
    typer.Option(
        "--part",
        help="With --judged: test leaves out training and validation items; validation leaves out training items only.",
        show_default="test",
    ),
    With("judged"),
]
Judged = Annotated[
    bool,
    typer.Option(
        "--judged",
        help="Lists for the history before the held-out part, which figures are about. Without it, lists are live: all "
        "known history counts.",
    ),
]
Base = Annotated[bool, typer.Option("--base", help="Use the trained model, even if the run was diversified.")]

ResultName = Annotated[
    str | None,
    typer.Option("--name", help="The result of the run to use, if it has several.", show_default="the unnamed one"),
]
NewName = Annotated[
    str | None,
    typer.Option(
        "--name", help="Keep the result under this name, next to others of the run.", show_default="the unnamed one"
    ),
]
OverwriteResult = Annotated[bool, typer.Option("--overwrite", help="Replace the result that is already there.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Replace the run that is already there.")]
IndexMetric = Annotated[
    str,
    typer.Option("--metric", help="What your index searches by: inner_product, or cosine (item vectors of length 1)."),
]
JUnit = Annotated[Path | None, typer.Option(help="Write a JUnit file for the build server.")]
Rows = Annotated[Path | None, typer.Option("-o", "--output", help="Also write the rows to a .csv or .parquet file.")]

SplitMethod = Annotated[
    str,
    typer.Option(help="random (8:1:1), paper (80/20), leave-last, user-temporal (8:1:1 per user in time) or temporal."),
]
Preset = Annotated[
    str,
    typer.Option(
        help="Cleaning of a named set: default (5 per user and item) or paper (10 and 5).", rich_help_panel=CLEANING
    ),
]
Threshold = Annotated[
    str | None, typer.Option(help="Lowest rating that is a positive, or none.", rich_help_panel=CLEANING)
]
MinUser = Annotated[int | None, typer.Option(help="Fewest positives of a user.", rich_help_panel=CLEANING)]
MinItem = Annotated[int | None, typer.Option(help="Fewest positives of an item.", rich_help_panel=CLEANING)]
ColumnMap = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=COLUMN", help="A column of your files, as in user_id=userId. Repeatable."),
]
CategoryTable = Annotated[
    str | None,
    typer.Option("--categories", help="Long table item_id,category[,weight].", rich_help_panel=CATEGORIES),
    Without("category_column"),
]
ItemTable = Annotated[
    str | None, typer.Option("--items", help="Item table with a column item_id.", rich_help_panel=CATEGORIES)
]
CategoryColumn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns of the item table with categories, with commas between or repeated; genre_* means several.",
        rich_help_panel=CATEGORIES,
    ),
]
CategorySeparator = Annotated[
    str | None,
    typer.Option(
        help="The text between two categories of such a column.", show_default="detected", rich_help_panel=CATEGORIES
    ),
    With("category_column"),
]
CategoryLevel = Annotated[
    str | None,
    typer.Option(
        help="For nested categories and paths (A > B): last, or path.", show_default="last", rich_help_panel=CATEGORIES
    ),
    With("category_column"),
]


def lists_in(judged: bool, part: str = "test") -> str:
    """Say which lists an output shows.

    >>> lists_in(False), lists_in(True)
    ('live lists: all known history', 'judged lists: history before the test part')
    """
    return f"judged lists: history before the {part} part" if judged else "live lists: all known history"
