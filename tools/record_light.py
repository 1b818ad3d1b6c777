"""Record an export and its lists for the light tests: python tools/record_light.py runs/light tests/light/recorded

The tests of an installation with numpy and numba alone read them, so that its lists are those of the full one. The run:

    recprism train --min-item 20 --set dim=12 -o runs/light
    recprism diversify runs/light --budget 5% --goal sc+ilad_subtopics --max-share Drama=40% --ban 318

It writes the rule as ``recprism export`` does, and ``lists.json``: for some users what a request would hold
(candidates, scores, history, vector), and the list and the reasons that the rule gives offline.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from recprism.explain.reasons.questions import why_list
from recprism.runs import Run

USERS = range(0, 500, 125)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    run = Run.open(given.run)
    run.load_result().export(given.folder, "rule")
    lists = json.dumps(recorded(run), separators=(",", ":"))
    (given.folder / "lists.json").write_text(lists + "\n", encoding="utf-8")


def recorded(run: Run) -> list[dict[str, Any]]:
    """Requests and what the rule answers offline."""
    result = run.load_result()
    problem, rule = result.context(), result.own_rule()
    ids, (items, scores), lists = problem.split.item_ids, problem.candidates, problem.rank(rule)[0]
    found = []
    for user in USERS:
        shown = items[user] >= 0
        reasons = why_list(problem, rule, problem.split.user_ids[user].item())
        found.append(
            {
                "candidates": ids[items[user][shown]].tolist(),
                "scores": scores[user][shown].tolist(),
                "history": ids[problem.seen.row(user)].tolist(),
                "vector": problem.factors.search_vectors[0][user].tolist(),
                "list": ids[lists[user]].tolist(),
                "codes": [it.codes for it in reasons],
                "sentences": [it.for_users() for it in reasons],
            }
        )
    return found


if __name__ == "__main__":
    main()
