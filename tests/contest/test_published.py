"""Pages that repeat figures of the recorded contest repeat the recorded ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from contest.cases import GRID

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_recorded_worlds_are_those_of_the_contest() -> None:
    worlds = json.loads(page("frontier/contest.json"))["worlds"]
    known = {world.slug: world for world in GRID}
    assert {it["world"] for it in worlds} <= set(known)
    for it in worlds:
        (seeds,) = {cell["seeds"] for cell in it["cells"]}
        assert 1 <= seeds <= known[it["world"]].seeds


def test_the_page_is_that_of_the_record() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import frontier_docs
    finally:
        sys.path.remove(str(ROOT / "tools"))
    assert frontier_docs.page(frontier_docs.contest()) == page("frontier.md")
    assert frontier_docs.methods_page(frontier_docs.contest()) == page("frontier-methods.md")


def test_what_the_pages_say_of_leads_holds() -> None:
    """For goals of one list, no mean lead excludes 0; for goals of exposure, only those over greedy may."""
    for it in json.loads(page("frontier/contest.json"))["pooled"]:
        if it["against"] == "best" or it["goal"] not in ("shown_often@10", "gini@10"):
            assert it["lead"]["low"] <= 0 <= it["lead"]["high"], (it["goal"], it["level"], it["against"])


def test_certificates_are_those_of_the_contest() -> None:
    def rows(name: str) -> list[str]:
        section = page(name).partition("| budget | asked |")[2].partition("\n\n")[0]
        return section.splitlines()[2:]

    assert rows("certificate.md") == rows("frontier.md") != []
