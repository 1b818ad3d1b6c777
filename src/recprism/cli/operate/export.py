"""recprism export: the rule of a run, or what it is compiled into, as files for your own stack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._commands import given, refuse
from recprism.cli._output import next_step, print_json, print_sentence, progress_of_steps
from recprism.common.command_line import command_line

FIELDS = {"budget": "budgets", "no-vectors": "vectors", "with-histories": "histories"}
"""Option -> the field of a form that it sets, where their names differ."""


def export(
    context: typer.Context,
    run_directory: Annotated[Path, options.run_argument("A run, diversified or only trained.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new folder.", show_default="RUN/export-FORM")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            help="rule (for lists and reasons at request time), dials (a few named weights per user), user-vectors "
            "(your item index stays), boosts (a number per item, for goals of exposure) or vectors. The last are those "
            "of the trained model, or those that players found.",
            show_default="rule; vectors if the run has no rule",
        ),
    ] = None,
    to: Annotated[str, typer.Option(help="Files of vectors: safetensors, npz, parquet, csv or faiss.")] = "safetensors",
    metric: Annotated[
        str | None,
        typer.Option(help="What your index searches by: inner_product or cosine.", show_default="the model's own"),
    ] = None,
    alpha: Annotated[
        float,
        options.share_option(
            help="Share of the rule's trade-off, compiled again: 1 is the rule's own, 0 the trained model (rollback)."
        ),
    ] = 1.0,
    margin: Annotated[
        float | None,
        options.share_option(
            help="For an index that rounds, such as int8: user vectors that hold the same lists by this margin, a "
            "share of the spread of a user's scores (0.05).",
            show_default="as compiled",
        ),
    ] = None,
    for_index: Annotated[
        Path | None,
        typer.Option(
            help="For product quantisation: a FAISS file with the item vectors. The user vectors then hold the same "
            "lists in what its codes decode to."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        options.share_option(
            help="Certify lists of this form: compile every step of the path for the held-out users, and export the "
            "furthest step whose loss of NDCG@10 stays within the budget.",
            show_default="not certified",
        ),
    ] = None,
    no_vectors: Annotated[
        bool, typer.Option("--no-vectors", help="For the rule: leave out the item vectors; scores come from elsewhere.")
    ] = False,
    with_histories: Annotated[
        bool,
        typer.Option(
            "--with-histories",
            help="For the rule: include the histories of all users, so that a request may name the user instead.",
        ),
    ] = False,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the rule, or what it is compiled into, for your own stack.

    The rule makes the live lists that `recprism recommend` shows, at request time. The other forms are compiled for
    live lists: all known interactions count as seen. The command prints and stores how many of their lists equal those
    of the rule. The certificate of the run is about the rule, and travels with it. Lists of another form are certified
    by --budget; without it the command says what they lose.

    Files of vectors are read back and ranked before they are kept. User vectors belong to one version of the item
    vectors. The version is in the files and in their names, and loading any other pair is refused. If only user vectors
    changed, the items keep their version, and your index stays. `expected.json` holds lists that test an installation.

    Examples:

    - `recprism export runs/x -o rule`
    - `recprism export runs/x --with-histories -o rule`
    - `recprism export runs/x --form user-vectors --to parquet`
    - `recprism export runs/x --form user-vectors --to faiss -o index`
    - `recprism export runs/x --form dials --budget 5%`
    - `recprism export runs/x --form user-vectors --alpha 0 -o rollback`
    """
    from recprism.forms.form import FORMS, default_form, options_of
    from recprism.runs.jobs.export import export_run
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    options: dict[str, Any] = {
        "to": to,
        "alpha": alpha,
        "metric": metric,
        "margin": margin,
        "for_index": for_index,
        "budgets": None if budget is None else {"ndcg@10": budget},
        "vectors": not no_vectors,
        "histories": with_histories,
    }
    kind, asked = form or default_form(run.within is not None), {}
    for option in given(context, "output", "form", "name", "as_json"):
        field = FIELDS.get(option, option.replace("-", "_"))
        works = [f"for --form {it}" for it, known in FORMS.items() if field in options_of(known)]
        if f"for --form {kind}" not in works and kind in FORMS:
            refuse(f"--{option}", f"for --form {kind}", " or ".join(works))
        asked[field] = options[field]
    with progress_of_steps() as on_step:
        chosen, folder, made = export_run(run, output, form, **asked, on_step=on_step)
    if as_json:
        print_json({"folder": str(folder), "form": chosen.name, **made.to_dict()})
    else:
        for sentence in made.sentences(folder):
            print_sentence(sentence)
    next_step(command_line("serve", folder) if chosen.is_served else run.command("evaluate"))
