"""Catalogue coverage is never printed without Gini: an item shown to one user counts in full for coverage."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from recprism.runs.run import Run
from recprism.runs.stored_path import stored_path

COMMANDS: dict[str, tuple[str, ...]] = {
    "evaluate, defaults": ("evaluate", "RUN"),
    "evaluate, by name": ("evaluate", "RUN", "-m", "pc@5,ndcg@10"),
    "evaluate, two cuts": ("evaluate", "RUN", "-m", "catalogue_coverage@5,coverage@20,gini@5", "--json"),
    "evaluate, the paper's": ("evaluate", "RUN", "-m", "paper"),
    "audit": ("audit", "RUN", "--goal", "catalogue_coverage"),
    "audit, JSON": ("audit", "RUN", "--goal", "catalogue_coverage", "--json"),
    "diversify": ("diversify", "RUN", "--budget", "0.2", "--goal", "catalogue_coverage", "-m", "pc@10", "--name", "pc"),
    "frontier": ("frontier", "RUN", "--goal", "catalogue_coverage", "--rivals", "mmr"),
    "erase": ("erase", "RUN", "--goal", "catalogue_coverage@10"),
}
COSTLY = ("audit", "audit, JSON", "diversify", "frontier", "erase")


@pytest.fixture(scope="module")
def run(searched_run: Callable[..., Run]) -> Run:
    return searched_run(iterations=2)


@pytest.mark.parametrize(
    "command", [pytest.param(it, marks=pytest.mark.slow) if it in COSTLY else it for it in COMMANDS]
)
def test_gini_follows_coverage(command: str, run: Run, ok: Callable[..., Any]) -> None:
    words = [run.path if word == "RUN" else word for word in COMMANDS[command]]
    printed = ok(*words).out
    _require_gini(printed)


@pytest.mark.slow
def test_gini_is_in_the_stored_path_of_the_studio(run: Run) -> None:
    _require_gini(" ".join(stored_path(run, "catalogue_coverage").means))


def _require_gini(printed: str) -> None:
    covered = re.findall(r"catalogue_coverage@\d+", printed.replace('"metric": "', ""))
    names = set(covered) | {
        f"catalogue_coverage@{cut}" for cut in re.findall(r'"catalogue_coverage",\s*"k": (\d+)', printed)
    }
    assert names, "the command prints no catalogue coverage: it does not belong here"
    for name in names:
        cut = name.partition("@")[2]
        assert f"gini@{cut}" in printed or re.search(rf'"gini",\s*"k": {cut}\b', printed), f"{name} without Gini"
