"""The answers of audits, kept in a run: ``diversify`` takes them over instead of asking the labels again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from recprism.common.bound import CONTENTS, hash_of
from recprism.common.files import write_text
from recprism.errors import BusyError, StorageError
from recprism.runs.lock import held
from recprism.runs.parts.data import RunData
from recprism.runs.parts.folder import AUDITS
from recprism.runs.parts.lists import RunLists

FORMAT = 1
Kept = tuple[dict[str, Any], list[dict[str, Any]]]
"""What an audit asked, and its answers in the same order."""


class RunAudits(RunData, RunLists):
    """Reads and writes the answers of audits, which all results of the run share."""

    def keep_audit(self, asked: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> None:
        """Keep an audit; it replaces an earlier one that asked the same. A run that is read-only stays as it is.

        Args:
            asked: What was asked, with the hashes of labels and model.
            answers: One for each question.
        """
        with suppress(BusyError, StorageError), held(self.path):
            others = [[line, of] for line, of in self.audits() if line != asked]
            text = json.dumps([*others, [dict(asked), list(answers)]])
            facts = {"format": FORMAT, CONTENTS: hash_of(text.encode()), "audits": json.loads(text)}
            write_text(self.file(AUDITS), json.dumps(facts))

    def audits(self) -> list[Kept]:
        """Return the audits, oldest first; none if the file is missing, edited or of another version."""
        try:
            facts = json.loads(self.file(AUDITS).read_text(encoding="utf-8"))
            whole = facts["format"] == FORMAT and facts[CONTENTS] == hash_of(json.dumps(facts["audits"]).encode())
            return [(line, answers) for line, answers in facts["audits"]] if whole else []
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
