"""The command line: it parses, calls and prints, and holds no mathematics.

Results go to stdout; progress, hints and logs go to stderr. Exit code 0 is success, 1 a failure, 2 a usage or input
error, 130 a command that Ctrl-C stopped.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from recprism.cli._commands import Command, Group
from recprism.cli._output import complain, configure_logging
from recprism.cli._usage import UsageError, usage_sentence
from recprism.cli.diversity import audit, dials, diversify, explain, explain_lists, steer, why
from recprism.cli.model import evaluate, evaluate_lists, import_vectors, recommend, resume, runs, train
from recprism.cli.operate import batch, check, experiment, export, holdout, monitor, monitor_log, refit, serve
from recprism.cli.pages import report, studio
from recprism.cli.paper import changes, erase, frontier, reproduce, search
from recprism.cli.start import data, demo, features
from recprism.common.files import refusal
from recprism.errors import RecprismError

PANELS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Start": {"demo": demo.demo, "data": data.app, "features": features.features},
    "Model": {
        "train": train.train,
        "resume": resume.resume,
        "import": import_vectors.import_vectors,
        "evaluate": evaluate.evaluate,
        "evaluate-lists": evaluate_lists.evaluate_lists,
        "recommend": recommend.recommend,
        "runs": runs.runs,
    },
    "Diversity": {
        "audit": audit.audit,
        "diversify": diversify.diversify,
        "explain": explain.explain,
        "why": why.why,
        "explain-lists": explain_lists.explain_lists,
        "dials": dials.dials,
        "steer": steer.steer,
    },
    "Paper": {
        "search": search.search,
        "erase": erase.erase,
        "changes": changes.changes,
        "frontier": frontier.frontier,
        "reproduce": reproduce.reproduce,
    },
    "Deploy": {
        "refit": refit.refit,
        "export": export.export,
        "batch": batch.batch,
        "serve": serve.serve,
        "check": check.check,
        "monitor": monitor.monitor,
        "monitor-log": monitor_log.monitor_log,
        "experiment": experiment.experiment,
        "holdout": holdout.holdout,
    },
    "Pages": {"report": report.report, "studio": studio.studio},
}
"""The commands by purpose, in the order of use."""


class _Commands(Group):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer would list groups such as data last
        return [name for commands in PANELS.values() for name in commands]


app = typer.Typer(
    name="recprism",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "Measure what diversity costs your recommender, diversify the lists within a budget, explain every change.\n\n"
        "Start with `recprism demo`. With your own data, `recprism train` or `recprism import` makes a run, which is a "
        "directory. The other commands work on runs. `recprism COMMAND --help` shows examples."
    ),
)
for _panel, _commands in PANELS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, cls=Command, rich_help_panel=_panel)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from recprism.common.version import __version__

        typer.echo(f"recprism {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the library's log on stderr.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    configure_logging(verbose)


@functools.cache
def _parser() -> Any:
    """Return the parser of all commands; a process that runs several of them builds it once."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; an error becomes one sentence and its exit code."""
    # torch's worker threads spin while they wait: on a busy machine that costs seconds. Set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        sys.exit(_parser()(standalone_mode=False, prog_name="recprism") or 0)
    except UsageError as problem:
        if type(problem).__name__ != "NoArgsIsHelpError":  # then the help was printed
            complain(usage_sentence(problem))
        sys.exit(2)
    except RecprismError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has closed it; 141 is what a shell reports then.
        sys.stderr.close()
        sys.exit(141)
    except OSError as problem:
        complain(refusal(problem.filename or "a file", problem.errno))
        sys.exit(1)
    except MemoryError:
        complain("the memory is used up; free some, or ask for less (fewer metrics, draws, arms or rivals)")
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):  # Ctrl-C; the command has said so
        sys.exit(130)
    except Exception as problem:
        from recprism.cli._crash import crash_sentence

        complain(crash_sentence(problem))
        sys.exit(1)
