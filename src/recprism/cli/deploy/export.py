"""recprism export: a run's vectors, or its query adapter, as files for a real stack."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import ResultName, share_option
from recprism.cli._output import AsJson, Seed, next_step, print_json, print_sentence, progress_of_steps
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.runs.run import Run


def export(
    run_directory: Annotated[Path, typer.Argument(help="A run; diversified, or only trained.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new folder.", show_default="RUN/export-FORMAT")
    ] = None,
    to: Annotated[str, typer.Option(help="safetensors, npz, parquet, csv or faiss.")] = "safetensors",
    part: Annotated[
        str | None,
        typer.Option(
            help="live: for lists without anything that is known of a user; test: for the lists that the test part "
            "judges.",
            show_default="live",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="What your index searches by: inner_product or cosine.", show_default="the model's own"),
    ] = None,
    alpha: Annotated[
        float, share_option(help="Blend: 1 is the run's own vectors, 0 the trained model's (rollback).")
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
            help="For product quantisation: a file of FAISS with the item vectors; user vectors that hold the same "
            "lists in what its codes decode to."
        ),
    ] = None,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Instead: the query adapter, for user vectors made at request time.")
    ] = False,
    hidden: Annotated[
        int, typer.Option(help="With --adapter: units of a hidden layer; 0 is a linear map.", min=0, max=4096)
    ] = 0,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Write vectors with ids and versions; they are read back and ranked before they count as written.

    User vectors belong with one version of the item vectors, which stands inside the files and in their names; loading
    any other pair is refused. Where only user vectors changed, the items' version is the old one: the index stays as it
    is. `expected.json` holds lists to try an installation with.

    Unless --part test asks for those that were judged, vectors are for live lists: all known interactions count as
    seen. How many consumed items the lists show (0) and what they gain is printed.

    Examples:

    - `recprism export runs/x --to parquet`
    - `recprism export runs/x --to faiss -o index`
    - `recprism export runs/x --alpha 0 -o rollback`
    - `recprism export runs/x --part test -o judged`
    - `recprism export runs/x --for-index ivfpq.faiss`
    - `recprism export runs/x --adapter`
    """
    from recprism.runs.run import Run

    if adapter and part not in (None, "test"):
        raise InputError("--adapter learns from the lists that the test part judges: omit --part")
    run = Run.open(run_directory, name)
    folder = output or run.export_path("adapter" if adapter else to)
    asked = {"metric": metric, "alpha": alpha, "margin": margin, "for_index": for_index, "part": part or "live"}
    facts, sentences = _adapter(run, folder, hidden, seed) if adapter else _vectors(run, folder, to, asked)
    if as_json:
        print_json({"folder": str(folder), **facts})
    else:
        for sentence in sentences:
            print_sentence(sentence)
    next_step(f"recprism evaluate {run.argument}")


def _vectors(run: Run, folder: Path, to: str, asked: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    from recprism.deploy.export import export_run

    with progress_of_steps() as on_step:
        made = export_run(run, folder, to, **asked, on_step=on_step)
    if made.for_index is not None:
        index = f"User vectors are for {made.for_index}, which stays; the items' file holds what it decodes to."
    elif made.index_stays:
        index = f"Item vectors are those of the trained model (version {made.item_version}): an index stays."
    else:
        index = (
            f"Item vectors changed (version {made.base_item_version} -> {made.item_version}): build the index again; "
            "graphs and codebooks of the old vectors do not fit."
        )
    live = () if made.live is None else made.live.sentences()
    facts = {**asdict(made), "live": None if made.live is None else made.live.to_dict()}
    return facts, [f"{made.users} and {made.items} -> {folder}", index, *live]


def _adapter(run: Run, folder: Path, hidden: int, seed: int) -> tuple[dict[str, Any], list[str]]:
    from recprism.data._files import atomic_folder
    from recprism.deploy._adapter_export import learn_adapter, write_onnx

    with atomic_folder(folder) as temporary:
        with progress_of_steps() as on_step:
            learned, shipped = learn_adapter(run, hidden=hidden, seed=seed, on_step=on_step)
        write_onnx(learned, temporary / "adapter.onnx")
        learned.save(temporary / "adapter.safetensors")
    return asdict(shipped), [f"adapter.safetensors and adapter.onnx -> {folder}", shipped.sentence()]
