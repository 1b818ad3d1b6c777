"""Compiled kernels: the folder that keeps them follows the sources, and is not needed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import recprism

pytestmark = pytest.mark.slow

SOURCE = Path(recprism.__file__).parent
KERNEL = """
import numpy as np
from recprism.rule.kernels.exchange import _stand_in_order
indptr, indices = np.arange(3), np.zeros(2, np.int64)  # two items of one category
prices, discount = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.0]), np.ones(3)
goals = (indptr, indices, 0, 0, 0, prices, discount, discount, 0, 0, np.ones(1))
before, own, later = np.ones((3, 1)), np.zeros(3), np.zeros(3)
_stand_in_order(np.arange(2), np.zeros(2), np.arange(2), goals, before, own, later)
print(own.tolist())
"""
WHERE = "from recprism.common.compile import cache_folder; print(cache_folder())"
RIGHT, EDITED = "[0.0, 1.0, 1.5]", "[0.0, -1.0, -1.5]"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose compiled kernels are kept."""
    root = tmp_path_factory.mktemp("built")
    shutil.copytree(SOURCE, root / "recprism", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(root, KERNEL) == RIGHT
    assert kernels(root / "recprism" / "__pycache__")
    return root


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run(root: Path, code: str, **environment: str) -> str:
    """What the code prints, by the package under ``root``. Kernels are compiled without optimisation: that is quick."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    variables |= {"PYTHONPATH": str(root), "NUMBA_OPT": "0", **environment}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=variables, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def kernels(folder: Path) -> list[Path]:
    return sorted(folder.glob("recprism-kernels-*/*.nbc"))


def test_an_edit_in_a_called_kernel_is_seen(copy: Path) -> None:
    called = copy / "recprism" / "rule" / "kernels" / "worth.py"
    source = called.read_text(encoding="utf-8")
    assert source.count("total += left[") == 1
    called.write_text(source.replace("total += left[", "total -= left["), encoding="utf-8")
    assert run(copy, KERNEL) == EDITED
    called.write_text(source, encoding="utf-8")
    before = kernels(copy / "recprism" / "__pycache__")
    assert run(copy, KERNEL) == RIGHT
    assert kernels(copy / "recprism" / "__pycache__") == before  # the first folder is still there, and is used


def test_only_the_latest_folders_are_left(copy: Path) -> None:
    places = copy / "recprism" / "__pycache__"
    for name in ("other-package", *(f"recprism-kernels-{n}" for n in range(6))):
        (places / name).mkdir()
        os.utime(places / name, (1e9, 1e9))
    with (copy / "recprism" / "rule" / "kernels" / "worth.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    folder = Path(run(copy, WHERE))
    assert folder.parent == places
    assert len(list(places.glob("recprism-kernels-*"))) == 4
    assert (places / "other-package").exists()


def test_numba_cache_dir_comes_first(copy: Path) -> None:
    assert Path(run(copy, WHERE, NUMBA_CACHE_DIR=str(copy / "mine"))).parent == copy / "mine"


@pytest.fixture
def unwritable(copy: Path) -> Path:
    """A copy without a place of its own: a file stands there. A read-only folder would not stop root."""
    shutil.rmtree(copy / "recprism" / "__pycache__")
    (copy / "recprism" / "__pycache__").touch()
    return copy


def test_a_read_only_package_uses_the_folder_of_the_user(unwritable: Path) -> None:
    home = unwritable / "home"
    home.mkdir()
    folder = Path(run(unwritable, WHERE, HOME=str(home), XDG_CACHE_HOME=str(home / "cache")))
    assert folder.is_relative_to(home)
    assert folder.is_dir()


def test_nowhere_to_keep_them(unwritable: Path) -> None:
    (unwritable / "file").touch()
    environment = {"HOME": str(unwritable / "file" / "home"), "XDG_CACHE_HOME": str(unwritable / "file" / "cache")}
    assert run(unwritable, f"{WHERE}\n{KERNEL}", **environment).split("\n") == ["None", RIGHT]


def test_a_folder_that_is_lost_while_the_process_runs(copy: Path) -> None:
    lose = "import shutil, recprism.rule.kernels.exchange; shutil.rmtree(cache_folder()); open(cache_folder(), 'w')"
    assert run(copy, f"{WHERE}; {lose}\n{KERNEL}").endswith(RIGHT)


def test_a_filled_folder_that_is_read_only_is_used(copy: Path) -> None:
    refuse = "import tempfile\ndef no(**_): raise PermissionError\ntempfile.TemporaryFile = no\n"
    assert Path(run(copy, refuse + WHERE)).parent == copy / "recprism" / "__pycache__"


COMPILED = """
from numba.core import event
compiled = []
class Compiled(event.Listener):
    def on_start(self, event):
        if event.data["dispatcher"].py_func.__module__.startswith("recprism"):
            compiled.append(event)
    def on_end(self, event): pass
event.register("numba:compile", Compiled())
"""


def test_one_of_two_processes_compiles(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "recprism", ignore=shutil.ignore_patterns("__pycache__"))
    with ThreadPoolExecutor(2) as pool:
        code = f"{COMPILED}{KERNEL}\nprint(len(compiled))"
        told = list(pool.map(lambda _: run(tmp_path, code, NUMBA_OPT="3"), range(2)))  # without it, some are not kept
    assert [it.split("\n")[0] for it in told] == [RIGHT, RIGHT]
    assert sum(int(it.split("\n")[1]) for it in told) == len(kernels(tmp_path / "recprism" / "__pycache__"))


SUMS = """
import numpy as np
from recprism.explain._kernels.choice import add_slots
values, gradient, hessian = np.random.default_rng(0).random((50, 11, 89)), np.zeros(11), np.zeros((11, 11))
counts, chosen = np.full(50, 89), np.zeros(50, np.int64)
print(add_slots(np.arange(50), values, counts, chosen, np.linspace(-20, 20, 11), gradient, hessian).hex())
print(*(it.hex() for it in gradient))
"""


def test_a_process_that_compiles_returns_the_bits_of_one_that_reads_compiled_code(tmp_path: Path) -> None:
    """The sums of the kernels may be in any order, and a kernel and its copy in a caller are optimised apart."""
    shutil.copytree(SOURCE, tmp_path / "recprism", ignore=shutil.ignore_patterns("__pycache__"))
    compiles, reads = (run(tmp_path, SUMS, NUMBA_OPT="3") for _ in range(2))
    assert compiles == reads


def test_constants_share_one_version(copy: Path) -> None:
    code = """
import numpy as np
from recprism.common.compile import compiled
from recprism.rule.kernels.worth import count
@compiled
def calls(indptr, indices, counts):
    count(0, indptr, indices, counts, 1)
    count(1, indptr, indices, counts, -1)
calls(np.arange(3), np.zeros(2, np.int64), np.zeros(1, np.int64))
print(len(count.signatures))
"""
    (copy / "calls.py").write_text(code, encoding="utf-8")
    assert run(copy, "import calls") == "1"


def test_a_kernel_that_does_not_compile_keeps_nobody_waiting(copy: Path) -> None:
    code = """
from recprism.common.compile import compiled
@compiled
def wrong(x):
    return x.no_such_name
try:
    wrong(1)
except Exception as problem:
    print(type(problem).__name__, wrong._cache._turn)
"""
    (copy / "wrong.py").write_text(code, encoding="utf-8")
    assert run(copy, "import wrong") == "TypingError None"


def test_decorators_need_numba_and_numpy_alone() -> None:
    code = "import sys, recprism.common.compile; assert not {'torch', 'polars', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


KERNEL_FILES = [file for file in SOURCE.rglob("*.py") if "recprism.common.compile" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", sorted(KERNEL_FILES), ids=lambda file: str(file.relative_to(SOURCE)))
def test_kernels_take_from_kernel_sources_alone(file: Path) -> None:
    """What other files lend, no compiled function and no constant of the file may use: its edits would go unseen."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    lent = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recprism.")
        for alias in node.names
        if not is_kernel_source(f"{node.module}.{alias.name}") and not is_kernel_source(str(node.module))
    }
    frozen = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        or (isinstance(node, ast.FunctionDef) and any("compiled" in ast.unparse(by) for by in node.decorator_list))
    ]
    used = {node.id for part in frozen for node in ast.walk(part) if isinstance(node, ast.Name)}
    assert not used & lent


def is_kernel_source(module: str) -> bool:
    return SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py") in KERNEL_FILES


def test_no_kernel_is_compiled_past_the_decorators() -> None:
    of_users = "list_function.py"  # compiles functions of users, whose sources are not in the hash of the cache
    for file in SOURCE.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert file.name in ("compile.py", of_users) or not ("njit" in source or "numba.jit" in source), file
