"""The command line: thin. It parses, calls and prints; what it prints is made elsewhere.

stdout has results, stderr has progress, hints and logs; exit code 0 is success, 1 a failure, 2 a usage or input error.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from recprism.cli._output import complain, configure_logging
from recprism.cli._usage import UsageError, usage_sentence
from recprism.cli.deploy import (
    check,
    experiment,
    export,
    interleave,
    monitor,
)
from recprism.cli.diversity import (
    audit,
    diversify,
    explain,
)
from recprism.cli.model import (
    evaluate,
    import_vectors,
    recommend,
    runs,
    train,
)
from recprism.cli.pages import (
    report,
)
from recprism.cli.pages import (
    studio as serve,
)
from recprism.cli.paper import (
    adjust,
    compare,
    erase,
    frontier,
    reproduce,
)
from recprism.cli.start import (
    data,
    demo,
    doctor,
    features,
)
from recprism.data._files import refusal
from recprism.errors import RecprismError

app = typer.Typer(
    name="recprism",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "What diversity would cost your recommender, who would pay, and which factors drive it.\n\n"
        "Start with `recprism demo`. A run is one directory: `train` or `import` makes it, `recommend` and `evaluate` "
        "use it."
    ),
)
app.add_typer(data.app, name="data")
app.command("train")(train.train)
app.command("import")(import_vectors.import_vectors)
app.command("audit")(audit.audit)
app.command("diversify")(diversify.diversify)
app.command("adjust")(adjust.adjust)
app.command("explain")(explain.explain)
app.command("erase")(erase.erase)
app.command("check")(check.check)
app.command("experiment")(experiment.experiment)
app.command("interleave")(interleave.interleave)
app.command("monitor")(monitor.monitor)
app.command("frontier")(frontier.frontier)
app.command("features")(features.features)
app.command("export")(export.export)
app.command("recommend")(recommend.recommend)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("runs")(runs.runs)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        from recprism._version import __version__

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


def main() -> None:
    """Entry point: an error of ours becomes its one sentence and its exit code."""
    # torch's worker threads spin while they wait: on a busy machine that costs seconds. Set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        sys.exit(app(standalone_mode=False, prog_name="recprism") or 0)
    except UsageError as problem:
        if type(problem).__name__ != "NoArgsIsHelpError":  # then the help was printed
            complain(usage_sentence(problem))
        sys.exit(2)
    except RecprismError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough; 141 is what a shell reports then.
        sys.stderr.close()
        sys.exit(141)
    except OSError as problem:
        complain(refusal(problem.filename or "a file", problem.errno))
        sys.exit(1)
    except MemoryError:
        complain("the memory is used up; free some, or ask for less (fewer metrics, draws, arms or rivals)")
        sys.exit(1)
