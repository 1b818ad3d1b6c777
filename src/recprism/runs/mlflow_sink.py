"""MLflow as a sink (extra ``[mlflow]``): parameters, metrics by step, the certificate, and the card.

Every command is one MLflow run in the experiment "recprism". The first command on a run directory is the parent of
later ones.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from recprism.common.extras import needing
from recprism.errors import InputError
from recprism.runs.config import flat
from recprism.runs.event_log import STEPS
from recprism.runs.run import Run
from recprism.runs.sinks import Outcome

EXPERIMENT = "recprism"
LOGGED = "logged to MLflow"
FILES = ("CARD.md", "config.toml", "certificate.json", "events.jsonl")
STATUS: dict[Outcome, str] = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
RESULTS = ("diversified", "diversified within a budget")
"""Events whose numbers are logged as metrics; numbers of other events are logged as parameters."""


class MlflowSink:
    """Logs to a tracking store.

    Args:
        uri: The address of the store. It must exist: a wrong address is refused before any work begins.
    """

    name = "MLflow"

    def __init__(self, uri: str) -> None:
        self.client, self.experiment = _connected(uri)
        self.id = ""

    def begin(self, run: Run) -> None:
        """Create the MLflow run, and log the settings and the data."""
        earlier = [event["id"] for event in run.events(without=STEPS) if event["event"] == LOGGED]
        tags = {"mlflow.parentRunId": earlier[0]} if earlier else {}
        self.id = self.client.create_run(self.experiment, tags=tags, run_name=run.path.name).info.run_id
        run.event(LOGGED, id=self.id)
        self._log(params=_asked(run, exclude={"data": {"data_root"}, "diversify": True}))
        for event in run.events(without=STEPS):
            if event["event"] in ("data", "imported"):
                self.event(event)

    def event(self, event: Mapping[str, Any]) -> None:
        """Log a step as metrics, a result as metrics and parameters, and any other event as parameters."""
        kind = str(event["event"])
        facts = {name: value for name, value in event.items() if name not in ("time", "event")}
        if kind in STEPS:
            step = int(facts.pop("done"))
            facts.pop("total", None)
            self._log({f"{kind}.{name}": value for name, value in facts.items()}, step=step)
            return
        named = flat(facts, f"{kind}.")
        numbers = {name: value for name, value in named.items() if _is_number(value)} if kind in RESULTS else {}
        self._log(numbers, {name: value for name, value in named.items() if name not in numbers})

    def end(self, run: Run, outcome: Outcome) -> None:
        """Log what was asked and the files, and close the MLflow run."""
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
    """Return a client and the id of the experiment, which is made if it is missing."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing is sent unasked
    with needing("logging to MLflow", "mlflow"):
        from mlflow import MlflowClient
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
    return flat(run.config.model_dump(exclude_none=True, **which))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _key(name: str) -> str:
    """Return a key that MLflow accepts: ndcg@10 becomes ndcg_10."""
    return re.sub(r"[^\w\-. /]", "_", name)
