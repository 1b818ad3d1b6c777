"""Nothing in the package runs what a file says, and every package it needs has a reason in SECURITY.md."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
NOT_AT_RUNTIME = {"test", "lint", "docs"}
BETWEEN_PROCESSES = {
    "_ray_session": ["takes load_ray().cloudpickle"] * 2
}  # what a Ray session's own processes send each other


def faults(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [it.name for it in node.names]
            if [it.name for it in node.names] == ["UnpicklingError"]:
                continue  # what torch raises for a file that holds more than tensors
            if isinstance(node, ast.ImportFrom):
                names += [it.name for it in node.names]  # a package may hand out another's: from ray import cloudpickle
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in FORBIDDEN_IMPORTS)
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_IMPORTS:
            yield f"takes {ast.unparse(node)}"
        if isinstance(node, ast.Call):
            yield from _bad_call(node)


def _bad_call(node: ast.Call) -> Iterator[str]:
    called = ast.unparse(node.func)
    given = {it.arg: ast.unparse(it.value) for it in node.keywords}
    if called in FORBIDDEN_CALLS or called in ("os.system", "os.popen"):
        yield f"calls {called}"
    if given.get("shell", "False") != "False":
        yield f"{called}(shell={given['shell']})"
    if given.get("allow_pickle", "False") != "False":
        yield f"{called}(allow_pickle={given['allow_pickle']})"
    if called in ("np.load", "numpy.load") and "allow_pickle" not in given:
        yield f"{called} without allow_pickle=False"
    if called == "torch.load" and given.get("weights_only") != "True":
        yield "torch.load without weights_only=True"


@pytest.mark.slow
def test_no_file_runs_what_it_reads() -> None:
    found = [(path.stem, list(faults(path.read_text(encoding="utf-8")))) for path in (ROOT / "src").rglob("*.py")]
    assert len(found) > 400
    assert [(name, lines) for name, lines in found if lines] == list(BETWEEN_PROCESSES.items())


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from ray import cloudpickle",
        "ray.cloudpickle.loads(content)",
        "from yaml import load",
        "eval(text)",
        "exec(text)",
        "subprocess.run(words, shell=True)",
        "np.load(path, allow_pickle=True)",
        "np.load(path)",
        "torch.load(path)",
        "os.system(words)",
    ],
)
def test_the_check_can_fail(line: str) -> None:
    assert list(faults(line))
    assert not list(faults("torch.load(path, weights_only=True)\nnp.load(path, allow_pickle=False)\nmodel.eval()"))


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(it for name in extras.keys() - NOT_AT_RUNTIME for it in extras[name])]
    names = {re.split(r"[<>=\[; ]", it, maxsplit=1)[0].lower() for it in wanted} - {"recprism"}
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in security.splitlines() if line.startswith("| ") and "---" not in line]
    told = {name.strip().lower(): row[2].strip() for row in rows for name in re.sub(r"\(.*?\)", "", row[1]).split(",")}
    assert sorted(names - told.keys()) == []
    assert all(told[name] for name in names)
