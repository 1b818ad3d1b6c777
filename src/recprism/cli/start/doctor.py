"""recprism doctor: what is installed, where data is searched, and what is missing."""

from __future__ import annotations

from recprism.cli._options import AsJson, DataRoot
from recprism.cli._output import next_step, print_facts, print_json, print_sentence, print_title


def doctor(data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """Show versions, devices, data folders and what is missing.

    Examples:

    - `recprism doctor`
    - `recprism doctor --json`
    """
    from recprism.runs.installation import examine

    found = examine(data_root)
    if as_json:
        print_json(found)
        return
    for title in ("versions", "extras", "machine", "data"):
        print_title(f"{title}:")
        print_facts(found[title])
    for complaint in found["missing"]:
        print_sentence(f"missing: {complaint}")
    next_step("recprism demo")
