"""recprism export: a run's vectors or its rule, as files for your own stack."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism._command_line import command_line
from recprism.cli._options import AsJson, ResultName, run_argument, share_option
from recprism.cli._output import next_step, print_json, print_sentence, progress_of_steps

if TYPE_CHECKING:
    from recprism.runs.run import Run


def export(
    run_directory: Annotated[Path, run_argument("A run, diversified or only trained.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new folder.", show_default="RUN/export-FORMAT")
    ] = None,
    to: Annotated[str, typer.Option(help="safetensors, npz, parquet, csv or faiss.")] = "safetensors",
    part: Annotated[
        str | None,
        typer.Option(
            help="live: for lists without any known item of the user; test: for the lists that the test part judges.",
            show_default="live",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="What your index searches by: inner_product or cosine.", show_default="the model's own"),
    ] = None,
    alpha: Annotated[
        float,
        share_option(
            help="Share of the run's trade-off, solved again: 1 is the run's own, 0 the trained model (rollback)."
        ),
    ] = 1.0,
    margin: Annotated[
        float | None,
        share_option(
            help="For an index that rounds, such as int8: user vectors that hold the same lists by this margin, a "
            "share of the spread of a user's scores (0.05).",
            show_default="the run's own",
        ),
    ] = None,
    for_index: Annotated[
        Path | None,
        typer.Option(
            help="For product quantisation: a FAISS file with the item vectors. The user vectors then hold the same "
            "lists in what its codes decode to.",
            show_default=False,
        ),
    ] = None,
    rule: Annotated[
        bool, typer.Option("--rule", help="Write the rule instead, for lists and reasons at request time.")
    ] = False,
    no_vectors: Annotated[
        bool, typer.Option("--no-vectors", help="With --rule: leave out the item vectors; scores come from elsewhere.")
    ] = False,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Write vectors or the rule for your own stack.

    The command reads the files back and ranks with them before it keeps them. User vectors belong to one version of
    the item vectors. The version is in the files and in their names, and loading any other pair is refused. If only
    user vectors changed, the items keep their version, and your index stays. `expected.json` holds lists that test an
    installation.

    By default the vectors are for live lists: all known interactions count as seen. The command prints how many
    consumed items the lists show (0) and what they gain. With --part test it writes the vectors that were judged.

    Examples:

    - `recprism export runs/x --to parquet`
    - `recprism export runs/x --to faiss -o index`
    - `recprism export runs/x --alpha 0 -o rollback`
    - `recprism export runs/x --part test -o judged`
    - `recprism export runs/x --for-index ivfpq.faiss`
    - `recprism export runs/x --rule -o rule`
    """
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    folder = output or run.export_path("rule" if rule else to)
    asked = {"metric": metric, "alpha": alpha, "margin": margin, "for_index": for_index, "part": part or "live"}
    if rule:
        facts, sentences = _rule(run, folder, vectors=not no_vectors)
    else:
        facts, sentences = _vectors(run, folder, to, asked)
    if as_json:
        print_json({"folder": str(folder), **facts})
    else:
        for sentence in sentences:
            print_sentence(sentence)
    next_step(command_line("serve", folder) if rule else run.command("evaluate"))


def _vectors(run: Run, folder: Path, to: str, asked: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    from recprism.deploy.export import export_run

    with progress_of_steps() as on_step:
        made = export_run(run, folder, to, **asked, on_step=on_step)
    if made.for_index is not None:
        index = f"User vectors are for {made.for_index}, which stays; the items' file holds what it decodes to."
    elif made.index_stays:
        index = f"Item vectors are those of the trained model (version {made.item_version}): an index stays."
    elif not made.items_moved:
        index = (
            f"Item vectors stay, without {len(made.constraints['banned']):,} banned items (version "
            f"{made.base_item_version} -> {made.item_version}): delete these from your index, or build it again."
        )
    elif made.dim > made.base_dim:
        index = (
            f"Vectors have {made.dim} numbers, {made.dim - made.base_dim} of them for dials and lifts (version "
            f"{made.base_item_version} -> {made.item_version}): build the index again."
        )
    else:
        index = (
            f"Item vectors changed (version {made.base_item_version} -> {made.item_version}): build the index again; "
            "graphs and codebooks of the old vectors do not fit."
        )
    rest = made.constraints.keys() - {"banned", "per_user_diversity", "allow_violations"}
    bound = []
    if rest:
        names = ", ".join(sorted(rest))
        bound.append(f"Vectors cannot hold {names}: apply the constraints in export.json when you serve.")
    live = () if made.live is None else made.live.sentences()
    facts = {**asdict(made), "live": None if made.live is None else made.live.to_dict()}
    return facts, [f"{made.users} and {made.items} -> {folder}", index, *bound, *live]


def _rule(run: Run, folder: Path, *, vectors: bool) -> tuple[dict[str, Any], list[str]]:
    from recprism.deploy.rule_export import export_rule

    made = export_rule(run, folder, vectors=vectors)
    facts = {"goals": dict(made.goals), "trade_off": made.trade_off, "k": made.k, "candidates": made.candidates}
    size = f"{len(made.item_ids):,} items, {len(made.names)} categories"
    said = [f"rule.json and rule.npz -> {folder}", f"The rule for {size}: recprism.serving.load({str(folder)!r})."]
    return {**facts, "n_items": len(made.item_ids), "vectors": vectors}, said
