"""Pages that repeat figures of the recorded contest repeat the recorded ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

from contest.cases import GRID

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_recorded_contest_is_the_published_grid() -> None:
    cells = json.loads(page("frontier/contest.json"))["cells"]
    assert list(dict.fromkeys(cell["world"] for cell in cells)) == [world.slug for world in GRID]
    assert {cell["world"]: cell["seeds"] for cell in cells} == {world.slug: world.seeds for world in GRID}


def test_counts_are_those_of_the_contest() -> None:
    found = re.search(r"ours (wins \d+), (ties \d+) and (loses \d+)", page("frontier.md"))
    assert found is not None
    wins, ties, loses = found.groups()
    assert f"ours {wins} of" in page("method.md")
    assert f"{ties} and {loses}" in page("method.md")
    changes = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"Ours {wins} of" in changes
    assert f"{ties} and {loses}" in changes


def test_gains_in_the_method_are_those_of_the_contest() -> None:
    cells = [
        cell
        for cell in json.loads(page("frontier/contest.json"))["cells"]
        if (cell["world"], cell["goal"]) == ("ml-1m-bprmf-user-temporal", "subtopic_coverage@10")
    ]
    rivals = [{it["rival"]["method"]: it["rival"] for it in cell["duels"]} for cell in cells]
    rows = {
        "optimal lists, by the rule": [cell["ours"] for cell in cells],
        "the same, as the dials of 0.2 served them": [cell["served"] for cell in cells],
        "greedy on the same objective": [it["greedy"] for it in rivals],
        "the best other re-ranker (xQuAD with uniform weights of categories)": [it["xquad_uniform"] for it in rivals],
    }
    for name, results in rows.items():
        figures = " | ".join(f"{100 * it['gain']:+.1f} %" for it in results)
        assert f"| {name} | {figures} |" in page("method.md")


def test_certificates_are_those_of_the_contest() -> None:
    def rows(name: str) -> list[str]:
        section = page(name).partition("| budget | asked |")[2].partition("\n\n")[0]
        return section.splitlines()[2:]

    assert rows("certificate.md") == rows("frontier.md") != []
