"""The result of a run: a change of its vectors, the certificate, and the explanation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from recprism.budget.diversified import Diversified
from recprism.budget.scenario import Ranker
from recprism.data._files import readable, require_rights, write_text
from recprism.data.concepts import Concepts
from recprism.errors import InputError
from recprism.models import Factors
from recprism.runs._event_log import has_event
from recprism.runs._run_parts.constraints import numbered
from recprism.runs._run_parts.data import DATA, RunData
from recprism.runs._run_parts.folder import ASKED
from recprism.runs._run_parts.lists import TRAINED, RunLists
from recprism.runs._run_parts.result_files import read_result, write_result
from recprism.runs.config import ConstraintsConfig, DiversifyConfig, read_config, write_config

STEERING, DIALS_SET = "steering.json", "dials set"
NO_SETTINGS = 'put it back, or go on without them by writing {"settings": []} into it'
OF_RESULT = (
    *("metrics.parquet", "recommendations.parquet", "delta.safetensors", "cmb.json", "result.json"),
    *("certificate.json", "explanation.json", "factors_explanation.json", "report.html"),
    *("live.safetensors", "recommendations.live.parquet"),
)
"""Files that are deleted, in this order, when a result is replaced."""
OF_SETTINGS = ("recommendations.parquet", "recommendations.live.parquet", "report.html")
"""Files that are deleted, in every result, when a user's own settings of the dials change."""


class RunResults(RunData, RunLists):
    """Reads and writes one result of a run."""

    def require_only_result(self) -> None:
        """Refuse to turn the vectors onto other axes if other results are changes of these vectors."""
        unnamed = [] if read_config(self.folder / "config.toml").diversify is None else ["the unnamed one"]
        others = [it for it in (*unnamed, *self.results()) if it != (self.result or "the unnamed one")]
        if others:
            raise InputError(
                f"{self.path}: refit turns the vectors that its other results ({', '.join(others)}) are made for; "
                "train into another run, or train again with --overwrite"
            )

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

    def save_result(self, found: Diversified) -> None:
        """Write a change of the vectors, and the base that it changes."""
        measured = self.metrics() if self.measured() == TRAINED else None
        if measured is None:
            self.file("metrics.parquet").unlink(missing_ok=True)  # of the result that is replaced
        before = self._files.hashes("factors.safetensors")
        folder, made_from = self.file("delta.safetensors").parent, self._files.hashes(*DATA)
        self.file("cmb.json" if found.search is None else "result.json").unlink(missing_ok=True)
        if found.search is None:
            write_result(found, folder, self.folder, made_from)
        else:
            found.search.save(folder, made_from=made_from, base_folder=self.folder)
        if measured is not None and before != self._files.hashes("factors.safetensors"):
            self.save_metrics(measured, base=True)  # the base was turned onto other axes: other bytes, the same lists

    def is_diversified(self) -> bool:
        """Whether there is a change of the vectors.

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

    def diversified(self) -> Diversified:
        """Return the result, however it was found."""
        if not self.is_diversified():
            raise InputError(f"{self.path}: holds no result yet; run `recprism diversify {self.argument} --budget 5%`")
        require_rights(self.file("delta.safetensors"))
        found = read_result(self.file("delta.safetensors").parent, self.folder, self.certificate())
        found = replace(found, constraints=numbered(self.constraints, found.base))
        if found.dials is None:
            return found
        names, known = found.dials.names, self.steering()  # another result may have other dials
        own = {user: {name: it for name, it in mine.items() if name in names} for user, mine in known.items()}
        return replace(found, steering={user: mine for user, mine in own.items() if mine})

    def steering(self) -> dict[Any, dict[str, float]]:
        """Return the dials that users set for themselves: user id -> concept -> share of the user's score range.

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
        """Write the dials that users set for themselves; what was made with other settings is deleted before.

        Args:
            settings: User id -> concept -> share of the user's score range, for all users.
            **changed: What the event says about the change.
        """
        for result in (None, *self.results()):
            of = type(self)(self.path, result, folder=self.folder)
            stale = OF_SETTINGS if of.measured() == TRAINED else (*OF_SETTINGS, "metrics.parquet")
            for name in stale:
                of.file(name).unlink(missing_ok=True)
        facts = {"schema": 1, "settings": [[user, dict(own)] for user, own in settings.items()]}
        write_text(self.folder / STEERING, json.dumps(facts, indent=1, ensure_ascii=False))
        self.event(DIALS_SET, **changed)

    @property
    def constraints(self) -> ConstraintsConfig:
        """What all lists of the result keep; nothing without a budget."""
        asked = self.config.diversify
        return ConstraintsConfig() if asked is None or asked.within is None else asked.within.constraints

    def concepts(self) -> Concepts | None:
        """Return the concepts that the dials of the result have weights for; None if they are the categories."""
        asked = self.config.diversify
        if asked is None or asked.within is None or not asked.within.concepts:
            return None
        dials = self.diversified().dials
        return None if dials is None else dials.concepts

    def served_model(self, *, base: bool = False) -> Ranker:
        """Return what makes the lists of the run; with ``base``, the trained model."""
        return self.factors() if base or not self.is_diversified() else self.diversified().model

    def served_factors(self, *, base: bool = False) -> Factors:
        """Return the vectors that the run serves; with ``base``, those of the trained model."""
        return self.factors() if base or not self.is_diversified() else self.diversified().factors

    def save_certificate(self, facts: Mapping[str, Any]) -> None:
        """Write certificate.json, bound to the served vectors and to the constraints."""
        facts = self._files.bound_facts({**facts, "constraints": self.constraints.model_dump()})
        write_text(self.file("certificate.json"), json.dumps(facts, indent=1))

    def certificate(self) -> dict[str, Any] | None:
        """Return certificate.json: what the change costs at most; None if no budget was given.

        Raises:
            InputError: If a budget was given, and the file is gone.
        """
        found, asked = self._files.read_facts("certificate", "diversify"), self.config.diversify
        noted = None if found is None else found.pop("constraints", None)
        if noted is not None and noted != self.constraints.model_dump():
            raise InputError(
                f"{self.path}: names other constraints than those that were certified; put config.toml back as it was, "
                "or make the result again with --overwrite"
            )
        if found is None and asked is not None and asked.within is not None:
            raise InputError(
                f"{self.file('certificate.json')}: is missing, and says what the result of {self.argument} costs and "
                "how far it goes; put it back, or make the result again with --overwrite"
            )
        return found

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
