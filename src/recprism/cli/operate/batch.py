"""recprism batch: lists of all users by an exported rule, in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With
from recprism.cli._output import print_json, print_sentence, progress_of_steps


def batch(
    export: Annotated[Path, typer.Argument(metavar="EXPORT", help="A folder of `recprism export RUN`.")],
    user_vectors: Annotated[
        Path,
        typer.Option(
            "--users",
            metavar="FILE",
            help="User vectors: .parquet with user_id and vector, .safetensors of a run, or .npy (ids are 0, 1, ...).",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A new folder, or that of the same batch.")],
    seen: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Parquet with user_id and item_id (file, folder or pattern): not shown, and the users' history.",
        ),
    ] = None,
    repeat_seen: Annotated[
        bool,
        typer.Option(
            "--repeat-seen", help="Without --seen: lists may repeat items that users know, without a history."
        ),
    ] = False,
    shown: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Parquet with user_id, item_id and age, in pages: the items of earlier pages."
        ),
    ] = None,
    no_repeat: Annotated[
        int | None,
        typer.Option(help="Pages after which a shown item may come again.", min=0, show_default="never"),
        With("shown"),
    ] = None,
    half_life: Annotated[
        float | None,
        options.number_option(help="Pages after which what was shown counts half.", least=0.001, show_default="1"),
        With("shown"),
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="Length of the lists.", min=1, show_default="that of the rule")
    ] = None,
    shard_users: Annotated[int, typer.Option(help="Users of a shard; memory grows with it.", min=1)] = 50_000,
    device: Annotated[options.Device, With("executor=local")] = "cpu",
    executor: options.ExecutorName = "local",
    as_json: options.AsJson = False,
) -> None:
    """Write the lists of many users, in Parquet files of some users each.

    Ranking is exact. The lists are those of the rule at request time. A shard has user_id, items and scores.

    A shard is written whole or not at all. After an interruption, the same command makes the missing shards. It refuses
    a folder whose shards come from other inputs or settings.

    Examples:

    - `recprism batch rule --users users.npy --repeat-seen -o lists`
    - `recprism batch rule --users users.parquet --seen 'log/*.parquet' -o lists`
    - `recprism batch rule --users users.parquet --seen log.parquet --executor ray -o lists`
    - `recprism batch rule --users users.parquet --seen log.parquet --shown pages.parquet -o page-2`
    """
    from recprism.operate.batch import make_batch
    from recprism.parallel import executor_named

    with progress_of_steps() as on_step:
        made = make_batch(
            export,
            user_vectors,
            output,
            seen=seen,
            repeat_seen=repeat_seen,
            shown=shown,
            no_repeat=no_repeat,
            half_life=half_life,
            k=k,
            shard_users=shard_users,
            device=device,
            executor=executor_named(executor),
            on_step=on_step,
        )
    if as_json:
        print_json(made.to_dict())
    else:
        for sentence in made.sentences():
            print_sentence(sentence)
