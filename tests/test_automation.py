"""Hosted CI, `.ci/run`, the hooks before a commit and the package metadata agree with each other."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from recprism.common.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    return found


@pytest.fixture(scope="module")
def lowest() -> Callable[[dict[str, Any]], list[str]]:
    found: Callable[[dict[str, Any]], list[str]] = runpy.run_path(str(ROOT / "tools/lowest_dependencies.py"))["lowest"]
    return found


def test_hosted_ci_runs_the_checks_of_ci_run(jobs: dict[str, Any]) -> None:
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    hosted = {target for command in commands for target in re.findall(r"^make (\S+)", command)}
    lines = re.findall(r"^[^#\n]*\b(?:make|from_nothing) ([^;\n]+)", read(".ci/run"), re.MULTILINE)
    checks = {word for line in lines for word in line.split() if re.fullmatch("[a-z-]+", word) and word[0] != "-"}
    targets = set(re.findall(r"^([a-z-]+): .*## ", read("Makefile"), re.MULTILINE))
    assert checks >= {"lint", "docs", "test", "test-rest", "test-plain"}
    assert hosted - {".venv/.extras"} == checks - {"demo"}  # hosted, check-demo runs it
    assert checks <= targets


def test_hosted_ci_covers_the_pythons_that_the_package_names(jobs: dict[str, Any]) -> None:
    named = {it.rpartition(" ")[2] for it in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", it)}
    checked = runpy.run_path(str(ROOT / "tools/check_wheels.py"))["PYTHONS"]
    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == set(checked) == named


def test_the_hooks_have_the_pinned_ruff() -> None:
    hooks = {repo["repo"]: repo for repo in yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]}
    (pinned,) = re.findall(r"^ruff==(.+)$", read("constraints.txt"), re.MULTILINE)
    assert hooks["https://github.com/astral-sh/ruff-pre-commit"]["rev"] == f"v{pinned}"


def test_the_package_knows_what_its_extras_bring() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {name_of(line) for line in PROJECT["dependencies"]} == {"numpy", "numba"}
    serve = {name_of(line) for line in extras["serve"]}
    assert {it.replace("_", "-") for it in EXTRAS["serve"]} == serve - {"uvloop"}  # uvloop is optional for uvicorn
    assert set(EXTRAS["full"]) - set(EXTRAS["serve"]) == {name_of(line) for line in extras["full"]} - {"recprism"}
    assert EXTRAS.keys() == extras.keys() - {"engines", "lint", "docs"}  # nothing in src imports those
    for name in extras.keys() - {"full", "serve", "haystack", "langchain", "llamaindex"}:
        assert any(re.match(r"recprism\[full\b", line) for line in extras[name]), name


def test_one_version() -> None:
    assert yaml.safe_load(read("CITATION.cff"))["version"] == PROJECT["version"]
    assert re.findall(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[0] == PROJECT["version"]


def test_the_lowest_versions_are_the_bounds(lowest: Callable[[dict[str, Any]], list[str]]) -> None:
    extras = {"a": ["two>=1.10", "four>=2; sys_platform != 'win32'"], "test": ["pytest"]}
    project = {"dependencies": ["two>=1.9,<3", "one[extra]>=1"], "optional-dependencies": extras}
    assert lowest(project) == ["four==2; sys_platform != 'win32'", "one==1", "two==1.10"]
    with pytest.raises(ValueError, match=r"'five' in pyproject\.toml has no lower bound"):
        lowest({"dependencies": ["five"], "optional-dependencies": {}})
    assert lowest({"dependencies": [], "optional-dependencies": {"a": ["recprism[b]"], "b": ["one>=1"]}}) == ["one==1"]
    names = {re.split(r"[=;]", line)[0] for line in lowest(PROJECT)}
    assert {"torch", "numpy", "polars", "fastapi", "faiss-cpu"} <= names
