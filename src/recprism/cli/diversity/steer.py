"""recprism steer: set the dials of one user."""

from __future__ import annotations

from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title
from recprism.cli._values import finite_number, key_values

FORM = "DIAL=SHARE, as in Animation=+0.2"


def steer(
    run_directory: options.DiversifiedRun,
    user: Annotated[str, typer.Option(help="The user whose dials are set.")],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="DIAL=SHARE",
            help="A dial and the share of the user's score range to add, from -1 to 1, as in Animation=+0.2. "
            "Repeatable.",
        ),
    ],
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the setting in the run: `recprism export --form dials` adds it. 0 removes it."
        ),
    ] = False,
    judged: options.Judged = False,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Set dials for one user, and show the list before and after.

    The rule's list of the user is compiled into a few named weights (dials), and the setting is added to them. Without
    --keep the run stays as it is. The lists of the result do not use settings: exported dials do.

    Examples:

    - `recprism steer runs/x --user 17 --set Animation=+0.2`
    - `recprism steer runs/x --user 17 --set Drama=-0.1 --set War=0.1 --keep`
    """
    from recprism.result.catalogue import titles_of
    from recprism.runs.jobs.dials import steer_run
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    wanted = {
        dial: finite_number(share, f"--set {dial}={share}", FORM)
        for dial, share in key_values(settings, "--set").items()
    }
    found = steer_run(run, user, wanted, live=not judged, keep=keep)
    if as_json:
        print_json({"run": str(run.path), "kept": keep, "live": not judged, **found.to_dict()})
        return
    own = ", ".join(f"{dial} {share:+g}" for dial, share in found.settings.items()) or "no dial"
    print_title(f"{run.argument}: user {user} with {own}, {options.lists_in(judged)}")
    titles = titles_of(run.items())
    rows = [
        (at + 1, *(titles[it] if it >= 0 else "" for it in pair))
        for at, pair in enumerate(zip(found.before, found.after, strict=True))
    ]
    print_table(("place", "before", "after"), rows, numeric=("place",))
    figures = [(metric, *pair) for metric, pair in found.values.items()]
    print_table(("metric", "before", "after"), figures, numeric=("before", "after"))
    if keep:
        print_sentence(
            "The setting is kept for `recprism export --form dials`. The certificate is not about users' own settings."
        )
    else:
        print_sentence("The setting is not kept; add --keep to keep it.")
    next_step(run.command("dials", user=user, judged=judged))
