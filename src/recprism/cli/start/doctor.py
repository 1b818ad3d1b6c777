"""recprism doctor: what is installed, what is found, and what is missing."""

from __future__ import annotations

from recprism.cli._output import AsJson, DataRoot, next_step, print_facts, print_json, print_sentence, print_title


def doctor(data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """Versions, threads, devices, where data is looked for, and what is missing.

    Example: `recprism doctor --json`
    """
    from recprism.runs._installation import examine

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
