"""recprism studio: pages about runs, on this machine."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from recprism.cli import _options as options
from recprism.cli._listen import in_link, listen
from recprism.cli._output import say
from recprism.errors import InputError

TOKEN = "RECPRISM_TOKEN"
READER_TOKEN = "RECPRISM_READER_TOKEN"


def studio(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS", help="Runs, or a folder of runs.")],
    host: Annotated[str, typer.Option(help="Any address but this machine's own needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN, help="Every request must carry it.", show_default="none on 127.0.0.1, else a random one"
        ),
    ] = None,
    reader_token: Annotated[
        str | None,
        typer.Option(
            envvar=READER_TOKEN,
            help="The token of a second link, for people who may look and start nothing.",
            show_default="no such link",
        ),
    ] = None,
    served: Annotated[Path | None, typer.Option(help="A log of `recprism serve --log`; its monitor is a page.")] = None,
    export: Annotated[Path | None, typer.Option(help="The folder of `recprism export RUN` that the log is of.")] = None,
    name: options.ResultName = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Explore runs in a browser on this machine.

    Look up a user: history, lists before and after, reasons, dials to move. Choose goals and a budget for all users,
    and see who pays. Look up an item. Compare results.

    The path towards the run's goal is computed once (half a minute on MovieLens-1M) and kept in the run. Ctrl-C
    ends the studio.

    Examples:

    - `recprism studio runs/demo`
    - `recprism studio runs/a runs/b --open`
    - `recprism studio runs --port 0`
    - `recprism studio runs/a --served log --export rule`
    - `recprism studio runs/a --host 0.0.0.0 --reader-token look`
    """
    from recprism.service.connections import server
    from recprism.service.safety import is_loopback
    from recprism.studio.app import create_app

    if token is not None and not token.strip():
        raise InputError(f"--token (or {TOKEN}) is empty; write a token, or omit it")
    if reader_token is not None and not reader_token.strip():
        raise InputError(f"--reader-token (or {READER_TOKEN}) is empty; write a token, or omit it")
    log = _served(export, served)
    open_to_all = is_loopback(host) and reader_token is None
    key = token or (None if open_to_all else secrets.token_urlsafe(24))
    if reader_token is not None and reader_token == key:
        raise InputError("--reader-token is the same as --token; write another one")
    with listen(host, port) as listener:  # before the runs are opened, which writes into them
        app = create_app(
            _run_directories(runs), result=name, served=log, host=host, token=key, reader_token=reader_token
        )
        address = f"http://{in_link(host)}:{listener.getsockname()[1]}/"
        where = address + (f"?token={quote(key)}" if key else "")
        say(f"recprism studio: {where}   (Ctrl-C ends it)")
        if reader_token is not None:
            say(f"to read only: {address}?token={quote(reader_token)}")
        if open_browser:
            typer.launch(where)
        server(app).run(sockets=[listener])


def _served(export: Path | None, log: Path | None) -> tuple[Path, Path] | None:
    """Return the export and its log, and refuse what the page could not read."""
    if export is None or log is None:
        if export is not log:
            raise InputError("--served and --export go together: a log, and the export that it is of")
        return None
    from recprism.forms.rule_file import RuleFile
    from recprism.operate.served.monitored import log_state

    RuleFile.read(export)
    log_state(log)
    return export, log


def _run_directories(named: list[Path]) -> list[Path]:
    """Replace a folder of runs by the runs in it."""
    found: list[Path] = []
    for path in named:
        inside = sorted(it.parent for it in path.glob("*/config.toml")) if path.is_dir() else []
        found += [path] if (path / "config.toml").exists() or not inside else inside
    return found
