"""recprism serve: the rule of an export over HTTP."""

from __future__ import annotations

import json
import logging
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._commands import With
from recprism.cli._listen import in_link, listen
from recprism.cli._options import share_option
from recprism.cli._output import say
from recprism.common.files import readable
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.operate.traffic.governor_plan import GovernorPlan

TOKEN, CALLER_TOKEN, LOG_KEY = "RECPRISM_TOKEN", "RECPRISM_CALLER_TOKEN", "RECPRISM_LOG_KEY"


def serve(
    export: Annotated[Path, typer.Argument(metavar="EXPORT", help="What `recprism export RUN` wrote.")],
    host: Annotated[
        str, typer.Option(help="Any address but this machine's own needs a token of 16 characters.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8766,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, help="Every request must carry it as a bearer token.", show_default="none"),
    ] = None,
    caller_token: Annotated[
        str | None,
        typer.Option(
            envvar=CALLER_TOKEN,
            help="A second token, which gets lists and cannot reload or switch off.",
            show_default="none",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(help="How many of the best candidates the rule chooses from.", show_default="the export's", min=1),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A .toml or .json file: name of a user or segment -> trade-off.")
    ] = None,
    scorer: Annotated[
        str | None,
        typer.Option(
            help="Name of the model whose scores requests have. Answers say whether it is the one that was tested.",
            show_default="none",
        ),
    ] = None,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Start with the kill switch on: every list is by relevance alone.")
    ] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Answer with the list by relevance alone, and log both lists.")
    ] = False,
    holdout: Annotated[
        float, share_option(help="Share of users (of requests, where no user is given) that get --holdout-price.")
    ] = 0.0,
    holdout_price: Annotated[
        float | None, share_option(help="The trade-off of the holdout, such as 0."), With("holdout")
    ] = None,
    governor: Annotated[
        Path | None,
        typer.Option(help="A .toml file with prices and budgets: the price rises while live traffic certifies it."),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="A folder for the log of served lists, in Parquet files.")] = None,
    log_users: Annotated[
        bool,
        typer.Option("--log-users", help=f"Log users as hashes, keyed by {LOG_KEY} (32 to 64 characters)."),
        With("log"),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            help="Processes that make lists, so that one service uses several processors; 0 makes them in itself.",
            min=0,
            max=64,
        ),
    ] = 0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Load the export again when its files change. SIGHUP and /reload do, too.")
    ] = False,
    max_bytes: Annotated[int, typer.Option(help="Bytes of a request.", min=64, max=2**30)] = 1024 * 1024,
    max_candidates: Annotated[int, typer.Option(help="Ids in each list of a request.", min=1)] = 10_000,
    max_k: Annotated[int, typer.Option(help="Length of a list.", min=1)] = 1_000,
    max_in_flight: Annotated[
        int, typer.Option(help="Requests for lists that are answered at the same time; more get 503.", min=1)
    ] = 256,
    drain: Annotated[
        float,
        typer.Option(
            help="Seconds between SIGTERM and the end, in which /ready is 503 and lists are served.", min=0, max=3600
        ),
    ] = 0.0,
) -> None:
    """Serve the rule of an export over HTTP.

    POST /rerank takes candidates and scores, and returns the list with its reasons. /rank takes a user vector, /explain
    gives reasons in words, /steer says what dials change. GET /health, /ready, /metrics (Prometheus) and /rule tell the
    state. /openapi.json describes all of it with examples. `recprism.service.Client` is a client for Python.

    A new export in the same place is loaded by SIGHUP, by POST /reload, or by itself with --watch; no request is
    dropped, and a damaged export changes nothing. SIGTERM and Ctrl-C end the service after the requests in flight.

    The log has no user ids. With --log-users it has keyed hashes of them. A holdout with a log needs them, because
    users are drawn, and requests of one user are not independent. The command needs `pip install 'recprism[serve]'`.

    Examples:

    - `recprism serve rule`
    - `recprism serve rule --log served --shadow`
    - `RECPRISM_LOG_KEY=KEY recprism serve rule --log served --log-users --holdout 5% --holdout-price 0`
    - `RECPRISM_LOG_KEY=KEY recprism serve rule --log served --log-users --governor governor.toml`
    - `recprism serve rule --host 0.0.0.0 --token SECRET --workers 4 --watch --drain 5`
    """
    from recprism.service import Settings, create_app
    from recprism.service.server import serve as server_of

    for given, option in ((token, f"--token (or {TOKEN})"), (caller_token, f"--caller-token (or {CALLER_TOKEN})")):
        if given is not None and not given.strip():
            raise InputError(f"{option} is empty; write a token, or omit it")
    if shadow and log is None:
        raise InputError("--shadow without --log FOLDER would make lists that are not kept; give both")
    settings = Settings(
        host=host,
        token=token,
        caller_token=caller_token,
        candidates=candidates,
        prices=None if prices is None else _read_prices(prices),
        scorer=scorer,
        enabled=not disabled,
        shadow=shadow,
        holdout=holdout,
        holdout_price=holdout_price,
        governor=None if governor is None else _read_plan(governor),
        log=log,
        log_users=log_users,
        log_key=os.environ.get(LOG_KEY) if log_users or holdout or governor else None,
        workers=workers,
        watch=watch,
        max_bytes=max_bytes,
        max_candidates=max_candidates,
        max_k=max_k,
        max_in_flight=max_in_flight,
        drain=drain,
    )
    logging.getLogger("recprism.service").setLevel(logging.INFO)  # an operator wants to see what is loaded
    with listen(host, port) as listener:
        app = create_app(export, settings)
        say(f"recprism serve: http://{in_link(host)}:{listener.getsockname()[1]}/   (Ctrl-C ends it)")
        server_of(app).run(sockets=[listener])


def _read_plan(path: Path) -> GovernorPlan:
    from recprism.operate.traffic.governor_plan import GovernorPlan  # it loads polars

    return GovernorPlan.read(path)


def _read_prices(path: Path) -> dict[str, Any]:
    """Read trade-offs by name; the service checks their values."""
    with readable(path, "no table of prices", "write NAME = TRADE-OFF lines (.toml), or a JSON object"):
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(found, dict) or not all(isinstance(it, int | float | str) for it in found.values()):
        raise InputError(f"{path}: no table of prices; write NAME = TRADE-OFF lines (.toml), or a JSON object")
    return found
