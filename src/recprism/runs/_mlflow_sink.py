"""MLflow as one who hears a run (extra ``[mlflow]``): parameters, metrics by step, the certificate, and the card.

Every command is an MLflow run of its own, in the experiment "recprism"; one on a run directory that was logged before
is a child of the first.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from recprism.errors import InputError, MissingDependencyError
from recprism.runs.run import STEPS, Run
from recprism.runs.sinks import Outcome

EXPERIMENT = "recprism"
LOGGED = "logged to MLflow"
FILES = ("CARD.md", "config.toml", "certificate.json", "events.jsonl")
STATUS: dict[Outcome, str] = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
RESULTS = ("diversified", "diversified within a budget")
"""Events whose numbers are what came out; those of other events say how it was made."""


class MlflowSink:
    """Logs to the tracking store at ``uri``, which must be there: a wrong address is said before any work begins."""

    name = "MLflow"

    def __init__(self, uri: str) -> None:
        self.client, self.experiment = _connected(uri)
        self.id = ""

    def begin(self, run: Run) -> None:
        earlier = [event["id"] for event in run.events(without=STEPS) if event["event"] == LOGGED]
        tags = {"mlflow.parentRunId": earlier[0]} if earlier else {}
        self.id = self.client.create_run(self.experiment, tags=tags, run_name=run.path.name).info.run_id
        run.event(LOGGED, id=self.id)
        self._log(params=_asked(run, exclude={"data": {"data_root"}, "diversify": True}))
        for event in run.events(without=STEPS):
            if event["event"] in ("data", "imported"):
                self.event(event)

    def event(self, event: Mapping[str, Any]) -> None:
        kind = str(event["event"])
        facts = {name: value for name, value in event.items() if name not in ("time", "event")}
        if kind in STEPS:
            step = int(facts.pop("done"))
            facts.pop("total", None)
            self._log({f"{kind}.{name}": value for name, value in facts.items()}, step=step)
            return
        flat = dict(_flat(facts, f"{kind}."))
        numbers = {name: value for name, value in flat.items() if _is_number(value)} if kind in RESULTS else {}
        self._log(numbers, {name: value for name, value in flat.items() if name not in numbers})

    def end(self, run: Run, outcome: Outcome) -> None:
        self._log(params=_asked(run, include={"diversify"}))  # written by the command that was followed
        for name in FILES:
            if run.file(name).exists():
                self.client.log_artifact(self.id, str(run.file(name)))
        self.client.set_terminated(self.id, STATUS[outcome])

    def _log(
        self, metrics: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None, *, step: int = 0
    ) -> None:
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        measured = [Metric(_key(name), float(it), now, step) for name, it in (metrics or {}).items() if _is_number(it)]
        made = [Param(_key(name), str(value)) for name, value in (params or {}).items()]
        self.client.log_batch(self.id, metrics=measured, params=made)


def _connected(uri: str) -> tuple[Any, str]:
    """A client, and the experiment there, made where it is missing."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing is sent anywhere unasked
    try:
        from mlflow import MlflowClient
    except ImportError as missing:
        raise MissingDependencyError(
            f"this needs the package {missing.name}; install it with: pip install 'recprism[mlflow]'"
        ) from missing
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(EXPERIMENT)
        return client, client.create_experiment(EXPERIMENT) if found is None else found.experiment_id
    except Exception as problem:
        words = (str(problem) or type(problem).__name__).splitlines()[0]
        raise InputError(f"--mlflow: cannot log there ({words}); name a store such as sqlite:///mlflow.db") from None


def _asked(run: Run, **which: Any) -> dict[str, Any]:
    return dict(_flat(run.config.model_dump(exclude_none=True, **which)))


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested facts by dotted names; what is not known or empty is left out."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None and value != []:
            yield f"{prefix}{name}", value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _key(name: str) -> str:
    """MLflow's keys know no @: ndcg@10 becomes ndcg_10."""
    return re.sub(r"[^\w\-. /]", "_", name)
