"""The result of a run: a change of its vectors, the certificate, and the explanation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.certificate import Certificate
from recprism.budget.problem import Problem
from recprism.common.files import readable, require_rights, write_text
from recprism.common.ids import id_series
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.result.result import Result
from recprism.rule.constraints.constraints import CATEGORY, Constraints
from recprism.runs.config import BudgetConfig, ConstraintsConfig, DiversifyConfig, flat, write_config
from recprism.runs.event_log import has_event
from recprism.runs.parts.audits import RunAudits
from recprism.runs.parts.data import DATA
from recprism.runs.parts.folder import ASKED
from recprism.runs.parts.lists import TRAINED
from recprism.runs.parts.questions import RunStore, clusters_hash, together_with_others
from recprism.runs.parts.result_files import read_result, write_result

CLUSTERS = "clusters"
STEERING, DIALS_SET = "steering.json", "dials set"
NO_SETTINGS = 'put it back, or go on without them by writing {"settings": []} into it'
OF_RESULT = (
    *("metrics.parquet", "recommendations.parquet", "delta.safetensors", "cmb.json", "result.json"),
    *("certificate.json", "explanation.json", "factors_explanation.json", "report.html"),
    *("recommendations.judged.parquet", "clusters.parquet"),
)
"""Files that are deleted, in this order, when a result is replaced."""


class NamedResults(Mapping[str, Result]):
    """The named results of a run, by name; a result is read from its files when it is asked for.

    Args:
        run: The run, with any of its results.
    """

    def __init__(self, run: RunResults) -> None:
        self._run = run

    def __getitem__(self, name: str) -> Result:
        """Read a result; its figures are judged on the test part."""
        if name not in self:
            raise KeyError(name)
        return type(self._run)(self._run.path, name, folder=self._run.folder).load_result()

    def __contains__(self, name: object) -> bool:
        return name in self._run._result_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._run._result_names())

    def __len__(self) -> int:
        return len(self._run._result_names())

    def __repr__(self) -> str:
        return f"NamedResults({', '.join(self)})"


class RunResults(RunAudits):
    """Reads and writes one result of a run."""

    @property
    def results(self) -> Mapping[str, Result]:
        """The named results, sorted by name: ``list(run.results)`` are names, ``run.results["bold"]`` is a result."""
        return NamedResults(self)

    def set_diversify(self, config: DiversifyConfig) -> None:
        """Note what is asked, and delete the result that it replaces."""
        if self.config.diversify is not None or self.result is not None:
            self.drop_checkpoint("search")
            for name in OF_RESULT:
                self.file(name).unlink(missing_ok=True)
        asked = self.config.model_copy(update={"diversify": config})
        if self.result is None:
            write_config(self.folder / "config.toml", asked)
        else:
            write_config(self.file(ASKED), asked, only={"diversify"})

    def problem(self, part: Part = "test", *, constraints: ConstraintsConfig | None = None) -> Problem:
        """Return the judged context of the trained model, from which audits, searches and lists start.

        Args:
            part: The part that judges.
            constraints: What the lists must keep, for a new result; by default those of this result, its history
                window, and the clusters of its users.
        """
        own = None if constraints is not None else self.within
        kept = (self.constraints if constraints is None else constraints).parsed()
        return Problem(
            self.base(),
            self.split(),
            self.categories(),
            part,
            store=RunStore(self),
            constraints=kept,
            fields=self._fields(kept),
            history_window=None if own is None else own.history_window,
            clusters=None if own is None or own.clusters is None else self._clusters(own.clusters),
        )

    def _fields(self, kept: Constraints) -> dict[str, list[Any]]:
        """Return the columns of the item table that constraints limit."""
        names = [it for it in kept.limited_fields if it != CATEGORY]
        columns = self.items().drop("item_id") if names else None
        if columns is None:
            return {}
        for name in names:
            if name not in columns.columns:
                there = ", ".join(columns.columns) or "no others"
                raise InputError(
                    f"{self.path}: the item table has no column {name!r} for max_items or spacing; it has {there}"
                )
        return {name: columns[name].to_list() for name in names}

    @property
    def clusters_file(self) -> Path | None:
        """The table of users and clusters that the certificate allows for; None if users are independent."""
        has_some = self.within is not None and self.within.clusters is not None
        return self.file(f"{CLUSTERS}.parquet") if has_some else None

    def _clusters(self, certified: str) -> NDArray[np.int64]:
        """Return ``(n_users,)`` the cluster of each user, if they have the hash of those that were certified."""
        again = "make the result again with --overwrite"
        table = self._files.read_table(CLUSTERS, again)
        users = id_series(self.split().user_ids, "user_id")
        whole = table.columns == ["user_id", "cluster"] and table["user_id"].equals(users)
        found: NDArray[np.int64] = table["cluster"].to_numpy() if whole else np.empty(0, np.int64)
        if clusters_hash(found) != certified:
            raise InputError(
                f"{self.clusters_file}: its clusters are not those of the certificate; put them back, or {again}"
            )
        return found

    def save_result(self, found: Result) -> None:
        """Write a result."""
        if self.measured() != TRAINED:
            self.file("metrics.parquet").unlink(missing_ok=True)  # of the result that is replaced
        folder, made_from = self.file("delta.safetensors").parent, self._files.hashes(*DATA)
        self.file("cmb.json" if found.vectors is None else "result.json").unlink(missing_ok=True)
        if found.problem.clusters is not None:
            users = id_series(found.problem.split.user_ids, "user_id")
            table = pl.DataFrame([users, pl.Series("cluster", found.problem.clusters)])
            self._files.write_table(CLUSTERS, table, self._files.hashes("split.parquet"))
        if found.vectors is None:
            write_result(found, folder, self.folder)
        else:
            found.vectors.save(folder, made_from=made_from, base_folder=self.folder)

    def is_diversified(self) -> bool:
        """Whether there is a result.

        Raises:
            InputError: If there was one, and its file is gone: the base would pass for the result.
        """
        change = self.file("delta.safetensors")
        if change.exists():
            return True
        if self.config.diversify is not None:
            raise InputError(
                f"{change}: is missing, and the result of {self.argument} needs it; put it back, or make the result "
                "again with --overwrite"
            )
        return False

    def load_result(self, part: Part = "test") -> Result:
        """Return the result, however it was found, as it is judged on a part.

        Raises:
            InputError: If there is none.
        """
        if not self.is_diversified():
            raise InputError(f"{self.path}: holds no result yet; run `recprism diversify {self.argument} --budget 5%`")
        require_rights(self.file("delta.safetensors"))
        folder = self.file("delta.safetensors").parent
        found = read_result(folder, self.folder, self.problem(part), self.certificate())
        return replace(found, steering=self.steering(), run=self)

    def model_or_result(self, part: Part = "test", *, base: bool = False) -> Result:
        """Return the result; with ``base`` or without a result, the trained model as it is."""
        if base or not self.is_diversified():
            return Result(self.problem(part), run=self)
        return self.load_result(part)

    def steering(self) -> dict[Any, dict[str, float]]:
        """Return the dials that users set for themselves: user id -> property -> share of the user's score range.

        Raises:
            InputError: If there were settings, and their file is gone: other lists would be served without a word.
        """
        path, log = self.folder / STEERING, self.folder / "events.jsonl"
        if not path.exists():
            if has_event(log, DIALS_SET):
                raise InputError(f"{path}: is missing, and holds dials that users set for themselves; {NO_SETTINGS}")
            return {}
        with readable(path, "not settings of dials written by recprism", NO_SETTINGS):
            return {user: dict(own) for user, own in json.loads(path.read_text(encoding="utf-8"))["settings"]}

    def save_steering(self, settings: dict[Any, dict[str, float]], **changed: Any) -> None:
        """Write the dials that users set for themselves.

        Args:
            settings: User id -> property -> share of the user's score range, for all users.
            **changed: What the event says about the change.
        """
        facts = {"schema": 1, "settings": [[user, dict(own)] for user, own in settings.items()]}
        write_text(self.folder / STEERING, json.dumps(facts, indent=1, ensure_ascii=False))
        self.event(DIALS_SET, **changed)

    @property
    def within(self) -> BudgetConfig | None:
        """The budget and its goal that the result was asked for; None if it was not diversified within one."""
        return None if self.config.diversify is None else self.config.diversify.within

    @property
    def constraints(self) -> ConstraintsConfig:
        """What all lists of the result keep; nothing without a budget."""
        return ConstraintsConfig() if self.within is None else self.within.constraints

    def _asked(self) -> dict[str, Any]:
        """Return the configuration of the run and of the result; the device changes nothing that is certified."""
        return self.config.model_dump(mode="json", exclude={"device"})

    def save_certificate(self, facts: Mapping[str, Any]) -> None:
        """Write certificate.json, bound to the served vectors and to what was asked."""
        facts = self._files.bound_facts({**facts, "asked": self._asked()})
        write_text(self.file("certificate.json"), json.dumps(facts, indent=1))

    def certificate(self) -> dict[str, Any] | None:
        """Return certificate.json: what the change costs at most; None if no budget was given.

        Raises:
            InputError: If a budget was given, and the file is gone.
        """
        found = self._files.read_facts("certificate", "diversify")
        noted = None if found is None else found.pop("asked", None)
        before, now = flat(noted or {}), flat(self._asked())
        other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if noted is not None and other:
            name = other[0]
            file = self.file(ASKED) if self.result and name.startswith("diversify") else self.path / "config.toml"
            raise InputError(
                f"{file}: has {name} = {now.get(name)!r}, and the certificate is for {before.get(name)!r}; put it back "
                "as it was, or make the result again with --overwrite"
            )
        if found is None and self.within is not None:
            raise InputError(
                f"{self.file('certificate.json')}: is missing, and says what the result of {self.argument} costs and "
                "how far it goes; put it back, or make the result again with --overwrite"
            )
        return found

    def joint_certificate(self) -> Certificate | None:
        """Return the certificate with the confidence of all questions that its labels answered; None without one."""
        kept = self.certificate()
        return None if kept is None else self.together_with_others(Certificate.from_dict(kept["certificate"]))

    def together_with_others(self, own: Certificate) -> Certificate:
        """Return a certificate with the confidence of all questions that its labels have answered."""
        return together_with_others(self, own)

    @property
    def scorer(self) -> str:
        """Kind of the model, and eight letters of the fingerprint of the run."""
        return f"{self.config.model.name}-{self.fingerprint()[:8]}"

    def origin(self) -> dict[str, Any]:
        """Return the names of the run and of the result, and the fingerprint of the run, for what is exported."""
        return {"run": self.path.resolve().name, "result": self.result, "made_from": self.fingerprint()}

    def save_explanation(self, facts: Mapping[str, Any]) -> Path:
        """Write explanation.json, bound to the served vectors."""
        return self._save_facts("explanation.json", facts)

    def explanation(self) -> dict[str, Any] | None:
        """Return the last explanation; None without one."""
        return self._files.read_facts("explanation", "explain")

    def save_factors_explanation(self, facts: Mapping[str, Any]) -> Path:
        """Write factors_explanation.json, bound to the served vectors."""
        return self._save_facts("factors_explanation.json", facts)

    def factors_explanation(self) -> dict[str, Any] | None:
        """Return what the last ``erase`` found; None without it."""
        return self._files.read_facts("factors_explanation", "erase")

    def _save_facts(self, name: str, facts: Mapping[str, Any]) -> Path:
        path = self.file(name)
        write_text(path, json.dumps(self._files.bound_facts(facts), indent=1, ensure_ascii=False))
        return path
