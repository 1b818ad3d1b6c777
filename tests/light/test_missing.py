"""Without an extra, every name and command that needs one says so in one sentence."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import recprism
from recprism import serving
from recprism.__main__ import main
from recprism.common.lazy import homes_of
from recprism.errors import MissingDependencyError
from recprism.integrations import RecprismRanker
from recprism.integrations.langchain import RecprismCompressor
from recprism.integrations.llamaindex import RecprismPostprocessor

pytestmark = pytest.mark.skipif(
    find_spec("torch") is not None, reason="torch is installed: `make test-light` tests what is said without it"
)

SOURCE = Path(recprism.__file__).parent
SENTENCE = r"{} needs \w+, which is not installed; run: pip install 'recprism\[{}\]'"
NAMES = {
    ".".join(("recprism", *stub.parent.relative_to(SOURCE).parts, name))
    for stub in SOURCE.rglob("__init__.pyi")
    for name in homes_of(stub)
}
LIGHT = {
    *(f"recprism.serving.{name}" for name in serving.__all__),
    *(
        f"recprism.service.{name}"
        for name in ("Answer", "Client", "ExplainedAnswer", "Moved", "ServiceError", "SteeredAnswer")
    ),
    *(f"recprism.explain.{name}" for name in ("Reason", "ReasonNot", "WhatIf")),
    *(
        f"recprism.{room}.{name}"
        for room in ("rule", "rule.constraints")
        for name in ("Constraints", "Unmet", "Violations")
    ),
    "recprism.__version__",
    "recprism.diversify_list",
    "recprism.budget.Promise",
    "recprism.forms.RuleFile",
    "recprism.integrations.RecprismRanker",
}


def commands() -> list[str]:
    """The commands in PANELS; the module itself needs typer."""
    tree = ast.parse((SOURCE / "cli" / "__init__.py").read_text(encoding="utf-8"))
    (panels,) = (it.value for it in tree.body if isinstance(it, ast.AnnAssign) and ast.unparse(it.target) == "PANELS")
    assert isinstance(panels, ast.Dict)
    return [str(ast.literal_eval(key)) for panel in panels.values for key in getattr(panel, "keys", ())]


def test_the_packages_of_the_extras_are_not_there() -> None:
    for package in ("torch", "scipy", "polars", "pydantic", "typer", "rich", "jinja2", "altair", "fastapi", "haystack"):
        assert find_spec(package) is None


def test_every_name_works_or_says_what_to_install() -> None:
    assert LIGHT < NAMES
    assert len(NAMES) > 150
    for path in NAMES:
        room, _, name = path.rpartition(".")
        module = import_module(room)
        assert name in dir(module), path
        if path in LIGHT:
            assert getattr(module, name) is not None, path
            continue
        sentence = SENTENCE.format(re.escape(path), "serve" if room == "recprism.service" else "full")
        with pytest.raises(MissingDependencyError, match=f"^{sentence}$"):
            getattr(module, name)
        with pytest.raises(ImportError, match=f"^{sentence}$"):
            exec(f"from {room} import {name}", {})


def test_other_attributes_are_as_ever() -> None:
    assert not hasattr(recprism, "nothing")
    assert not hasattr(recprism.metrics, "_private")
    assert recprism.errors.MissingDependencyError is MissingDependencyError
    with pytest.raises(MissingDependencyError, match=r"recprism\.metrics\.accuracy needs torch"):
        recprism.metrics.accuracy  # noqa: B018
    with pytest.raises(MissingDependencyError, match=r"recprism\.cli needs torch"):
        recprism.cli  # noqa: B018


def test_a_component_names_its_own_extra() -> None:
    with pytest.raises(MissingDependencyError, match=SENTENCE.format("RecprismRanker", "haystack")):
        RecprismRanker("export")
    with pytest.raises(MissingDependencyError, match=SENTENCE.format("RecprismCompressor", "langchain")):
        RecprismCompressor()
    with pytest.raises(MissingDependencyError, match=SENTENCE.format("RecprismPostprocessor", "llamaindex")):
        RecprismPostprocessor()


def test_every_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(commands()) > 25
    for command in commands():
        monkeypatch.setattr(sys, "argv", ["recprism", command, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        sentence = SENTENCE.format(f"recprism {command}", "serve" if command == "serve" else "full")
        printed = capsys.readouterr()
        assert re.fullmatch(f"error: {sentence}\n", printed.err)
        assert (printed.out, ended.value.code) == ("", 2)


def test_the_program_itself() -> None:
    install = "pip install 'recprism[full]'"
    answers = {"--version": (0, recprism.__version__), "--help": (0, install), "": (2, install), "demo": (2, install)}
    for program in ([sys.executable, "-m", "recprism"], [Path(sys.executable).parent / "recprism"]):
        for word, (code, wanted) in answers.items():
            done = subprocess.run([*program, *word.split()], capture_output=True, text=True, check=False)
            assert done.returncode == code
            assert wanted in (done.stderr if word == "demo" else done.stdout)
            assert bool(done.stderr) == (word == "demo")
