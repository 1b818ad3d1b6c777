"""The folder of a run: where each file is, what was asked, and what happened."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recprism.common.command_line import command_line
from recprism.errors import InputError
from recprism.runs._bound_files import BoundFiles
from recprism.runs.config import RunConfig, read_config
from recprism.runs.event_log import append_event, read_events
from recprism.runs.parts.fail_safe import FailSafeSink
from recprism.runs.parts.stage import TRAINING

AUDITS = "audit.json"
SHARED = (
    *("config.toml", "events.jsonl", "split.parquet", "items.parquet", "categories.parquet"),
    *("factors.safetensors", "factors.json", "training.checkpoint.safetensors", AUDITS),
)
"""Files that all results of a run share; every other file belongs to one result."""
RESULTS, ASKED = "results", "result.toml"
OF_SEARCH = ("step", "diversified", "diversified within a budget")
"""Events of one result; those of the unnamed result carry no name."""


class RunFolder:
    """Names the files of a run and of one of its results.

    Args:
        path: The run directory.
        result: The name of a result; None is the unnamed one.
        folder: Where the files are: the run directory by default, or a stage inside it (see ``stage``).
    """

    def __init__(self, path: str | Path, result: str | None = None, *, folder: Path | None = None) -> None:
        if result is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", result):
            raise InputError(f"a result is named by letters, digits, - and _, not {result!r}")
        self.path, self.result = Path(path), result
        self.folder = self.path if folder is None else folder
        self._files = BoundFiles(self.file, self.argument)
        self.sinks: list[FailSafeSink] = []

    def file(self, name: str) -> Path:
        """Return the path of a file: in the run's folder if all results share it, else in the result's folder."""
        is_shared = self.result is None or name in SHARED or name.startswith("path.")
        return (self.folder if is_shared else self.folder / RESULTS / str(self.result)) / name

    @property
    def argument(self) -> str:
        """How a command line names this result."""
        path = shlex.quote(str(self.path))
        return path if self.result is None else f"{path} --name {self.result}"

    def command(self, command: str, **options: Any) -> str:
        """Write a command about this result, as a shell takes it."""
        return command_line(command, self.path, name=self.result, **options)

    def _result_names(self) -> list[str]:
        """Return the names of the named results, sorted."""
        return sorted(file.parent.name for file in self.folder.glob(f"{RESULTS}/*/{ASKED}"))

    @property
    def config(self) -> RunConfig:
        """What was asked of the run and of this result."""
        found = read_config(self.folder / "config.toml")
        if self.result is None:
            return found
        asked = self.file(ASKED)
        return found.model_copy(update={"diversify": read_config(asked).diversify if asked.exists() else None})

    def fingerprint(self) -> str:
        """Return a hash of vectors, split and categories; files made from others do not belong to this run."""
        return self._files.fingerprint("factors.safetensors", "split.parquet", "categories.parquet")

    def event(self, kind: str, **facts: Any) -> None:
        """Append one line to events.jsonl and notify the sinks."""
        of = {} if self.result is None else {"result": self.result}
        event = {"time": round(time.time(), 3), "event": kind, **of, **facts}
        append_event(self.folder / "events.jsonl", event)
        for sink in self.sinks:
            sink.notify("event", event)

    def events(self, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return what happened, oldest first; events of other results are left out.

        Args:
            without: Kinds of events to skip.
        """

        def is_own(event: Mapping[str, Any]) -> bool:
            of = event.get("result")
            return of == self.result or (of is None and event.get("event") not in OF_SEARCH)

        logs = dict.fromkeys((self.folder,) if self.folder.name == TRAINING else (self.path, self.folder))
        return [event for log in logs for event in read_events(log / "events.jsonl", without) if is_own(event)]

    def has_events(self) -> bool:
        """Whether anything was noted."""
        return (self.folder / "events.jsonl").exists()
