"""Executors by name, and the one for this process; no cluster is started here."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recprism
from recprism.common.executor import LocalExecutor
from recprism.errors import InputError, MissingDependencyError
from recprism.parallel import executor_named


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="executor is local or ray, not 'dask'"):
        executor_named("dask")


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"needs ray, which .* pip install 'recprism\[ray\]'"):
        executor_named("ray")


@pytest.mark.slow
def test_the_room_and_the_local_executor_do_not_import_ray() -> None:
    code = (
        "import sys; from recprism.parallel import executor_named; executor_named('local'); "
        "assert 'ray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_local_pieces_run_when_their_result_is_asked_for() -> None:
    done: list[int] = []
    results = executor_named("local").map(
        lambda shared, piece: shared + piece, 10, [1, 2], on_done=lambda: done.append(1)
    )
    assert done == []
    assert next(results) == 11
    assert done == [1]


def test_local_pieces_may_run_in_threads() -> None:
    prepared: list[int] = []
    with LocalExecutor() as executor:
        results = executor.map(lambda shared, piece: shared * piece, 3, range(20), before_threads=prepared.append)
    assert prepared == [3]
    assert list(results) == [3 * piece for piece in range(20)]


@pytest.mark.slow
def test_only_this_room_imports_ray_and_only_the_command_line_imports_this_room() -> None:
    source = Path(recprism.__file__).parent
    importing: dict[str, set[str]] = {"ray": set(), "recprism.parallel": set()}
    for file in source.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for package, rooms in importing.items():
                if any(f"{name}.".startswith(f"{package}.") for name in names):
                    rooms.add(file.relative_to(source).parts[0])
    assert importing == {"ray": {"parallel"}, "recprism.parallel": {"parallel", "cli"}}
