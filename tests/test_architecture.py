"""The laws of the layout. CONTRIBUTING.md shows the same map and says why."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import recprism
from recprism.common.extras import EXTRAS, LIGHT, extra_of

SOURCE = Path(recprism.__file__).parent
ROOT = Path(__file__).parents[1]

ORDER = (
    "errors",
    "common",
    "data",
    "ranking",
    "metrics",
    "models",
    "rule",
    "rivals",
    "budget",
    "explain",
    "forms",
    "result",
    "runs",
    "operate",
    "api",
    "serving",
    "service",
    "integrations",
    "parallel",
    "cmb",
    "contest",
    "report",
    "studio",
    "cli",
    "testing",
)
CORE = ("ranking", "metrics", "models", "rule", "rivals", "forms.dials", "cmb.credit", "cmb.players", "cmb.cmb")
MOST_FILES = 20
MOST_NAMES, MOST_NAMES_AT_THE_TOP = 200, 25

NOT_IN_THE_CORE = ("altair", "jinja2", "pandas", "polars", "pyarrow", "pydantic", "rich", "safetensors", "scipy")
NOT_IN_THE_CORE += ("fastapi", "faiss", "mlflow", "ray", "sklearn", "textblob", "tomli_w", "triton", "typer")
NEED_MORE = ("_gpu", "triton_engine", "triton_kernels", "_vector_tables")
"""Modules of the core that are loaded only where triton or polars is installed."""

RUN_FILES = ("config.toml", "result.toml", "events.jsonl", "split.parquet", "items.parquet", "categories.parquet")
RUN_FILES += ("factors.safetensors", "factors.json", "training.checkpoint.safetensors", "delta.safetensors")
RUN_FILES += ("cmb.json", "certificate.json", "explanation.json", "factors_explanation.json")
RUN_FILES += ("metrics.parquet", "recommendations.parquet", "clusters.parquet")
RUN_FILES += ("recommendations.judged.parquet", "steering.json", "result.json", "audit.json", "labels.jsonl")
NAME_RUN_FILES = {
    "models/changed.py": "CMB.save and CMB.load work with or without a run",
    "cli/pages/studio.py": "finds runs below a folder",
    "studio/downloads.py": "names the files that a visitor downloads",
    "studio/opened.py": "watches the files of an open run for changes",
}


def module_of(file: Path) -> str:
    """The dotted name of a source file."""
    return ".".join(("recprism", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


FILES = {module_of(file): file for file in sorted(SOURCE.rglob("*.py"))}
ROOMS = {module_of(stub): stub.parent for stub in sorted(SOURCE.rglob("__init__.pyi"))}


def path_of(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def exports(room: str) -> dict[str, str]:
    """Public name -> the module that defines it, from the stub of a room."""
    lines = [line for line in tree_of(ROOMS[room] / "__init__.pyi").body if isinstance(line, ast.ImportFrom)]
    homes = {alias.name: str(line.module) for line in lines for alias in line.names}
    return {name: f"{room}.{name}" if home == room else home for name, home in homes.items()}


@cache
def nodes_of(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(file)))


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """The modules of recprism that these nodes import; a name of a lazy room counts as the module that defines it."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            homes = exports(node.module) if node.module in ROOMS else {}
            found |= {path if path in FILES else homes.get(name, node.module) for name, path in inside.items()}
    return {name for name in found if name.split(".")[0] == "recprism"}


@cache
def imports_anywhere(file: Path) -> set[str]:
    """Inside functions and for type checkers as well."""
    return imported(nodes_of(file))


def executed_on_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, ast.If | ast.Try) and "TYPE_CHECKING" not in ast.unparse(node).splitlines()[0]:
            yield from executed_on_import(node.body)
        yield node


def is_kernel(name: str) -> bool:
    return not {"kernels", "_kernels"}.isdisjoint(name.split("."))


def run_blocked(blocked: tuple[str, ...], code: str) -> None:
    """Run code in a process in which some packages cannot be imported."""
    block = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked in this test")
sys.meta_path.insert(0, Block())
"""
    done = subprocess.run([sys.executable, "-c", block + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def import_all(modules: list[str]) -> str:
    return f"from importlib import import_module\nfor name in {modules!r}:\n    import_module(name)\n"


class TestImports:
    def test_point_leftwards(self) -> None:
        wrong = {}
        for file in FILES.values():
            part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
            if part not in ("__init__", "__main__"):
                allowed = {"recprism", *(f"recprism.{name}" for name in ORDER[: ORDER.index(part) + 1])}
                wrong[path_of(file)] = {".".join(name.split(".")[:2]) for name in imports_anywhere(file)} - allowed
        assert not {file: names for file, names in wrong.items() if names}, "a room imports from the lines above it"

    def test_every_part_has_its_place_in_the_order(self) -> None:
        assert {name.split(".")[1] for name in FILES if "." in name} - {"__main__"} <= set(ORDER)

    def test_have_no_cycle(self) -> None:
        """Imports inside functions and for type checkers count: a module is understood without those above it."""
        graph = {name: imports_anywhere(file) & FILES.keys() - {name} for name, file in FILES.items()}
        TopologicalSorter(graph).prepare()

    def test_one_module_is_known_by_name_alone(self) -> None:
        """Saving a result needs a run, which is above it. Nothing else looks upwards."""
        named = set()
        for module, file in FILES.items():
            texts = {node.value for node in nodes_of(file) if isinstance(node, ast.Constant)} & FILES.keys()
            named |= {(module, it) for it in texts if it.count(".") > 1 and not module.startswith(it)}
        assert named == {("recprism.result.result", "recprism.runs.jobs.saved")}

    def test_run_in_no_cycle(self) -> None:
        """Any module can be the first one imported; here nothing is left out."""
        graph = {name: imported(executed_on_import(tree_of(file).body)) - {name} for name, file in FILES.items()}
        TopologicalSorter(graph).prepare()

    @pytest.mark.slow
    @pytest.mark.parametrize("first", ["accuracy", "calibration", "catalogue", "diversity", "strata"])
    def test_begin_with_any_file_of_metrics(self, first: str) -> None:
        code = f"import recprism.metrics.{first}; from recprism.metrics import METRICS; assert len(METRICS) > 25"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_of_kernels_need_numpy_and_numba_alone(self) -> None:
        kernels = [name for name in FILES if is_kernel(name)]
        assert len(kernels) > 15
        run_blocked(("torch", *NOT_IN_THE_CORE), import_all(kernels))
        for name in kernels:
            others = {it for it in imports_anywhere(FILES[name]) if not is_kernel(it)}
            assert others <= {"recprism.common.compile", "recprism.errors"}, name

    @pytest.mark.slow
    def test_of_the_core_need_torch_numpy_and_numba_alone(self) -> None:
        """Other packages are imported inside the functions that use them."""
        core = [name for name in FILES if f"{name}.".startswith(tuple(f"recprism.{room}." for room in CORE))]
        code = import_all([name for name in core if name.split(".")[-1] not in NEED_MORE])
        run_blocked(NOT_IN_THE_CORE, code)

    def test_of_light_modules_need_numpy_and_numba_alone(self) -> None:
        light = [name for name in FILES if name.count(".") and extra_of(name) is None]
        assert {f"recprism.{name}" for name in LIGHT} <= set(light)
        run_blocked(("torch", *NOT_IN_THE_CORE), import_all(light))

    @pytest.mark.slow
    def test_of_the_service_need_its_extra_alone(self) -> None:
        """The command line as well, up to the command that runs."""
        others = sorted(set(EXTRAS["full"]) - set(EXTRAS["serve"]))
        service = [name for name in FILES if name.startswith("recprism.service.")]
        code = import_all([*service, "recprism.cli", "recprism.cli._crash"])
        run_blocked((), f"sys.modules.update(dict.fromkeys({others!r}))\n{code}")

    def test_of_the_contest_are_in_cli_alone(self) -> None:
        for file in FILES.values():
            if not path_of(file).startswith(("contest/", "cli/")):
                assert not {name for name in imports_anywhere(file) if name.startswith("recprism.contest")}, file

    def test_of_the_paper_are_in_its_pages_alone(self) -> None:
        """The rooms before ``cmb`` cannot import it; of the others, only the command line and one section do."""
        theirs = ("cmb/", "contest/", "cli/", "report/explained.py")
        for file in FILES.values():
            if not path_of(file).startswith(theirs):
                assert not {name for name in imports_anywhere(file) if name.startswith("recprism.cmb")}, file

    def test_of_explain_name_no_policy(self) -> None:
        for file in (*(SOURCE / "explain").rglob("*.py"), *(SOURCE / "cmb/factors").rglob("*.py")):
            assert "recprism.cmb.players.policies" not in imports_anywhere(file), file


class TestModules:
    def test_a_folder_holds_few_files(self) -> None:
        counts = {path_of(folder): len(list(folder.glob("*.py"))) for folder in {it.parent for it in FILES.values()}}
        assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}

    def test_none_only_passes_on(self) -> None:
        for file in FILES.values():
            if file.name != "__init__.py":
                assert not all(_passes_on(node) for node in tree_of(file).body), f"{file}: import from where it is"

    def test_an_underscore_is_private_to_its_room(self) -> None:
        wrong = []
        for name, file in FILES.items():
            others = [it for it in imports_anywhere(file) if it.split(".")[1:2] != name.split(".")[1:2]]
            wrong += [(name, it) for it in others if re.search(r"\._[^_]", it)]
        assert wrong == []

    def test_a_module_that_defines_a_public_name_has_no_underscore(self) -> None:
        homes = {home for room in ROOMS for home in exports(room).values()} - {"recprism.common.version"}
        assert not [home for home in homes if "._" in home]

    @pytest.mark.parametrize("room", ROOMS)
    def test_no_name_hides_a_module(self, room: str) -> None:
        """``recprism.room.name`` is the same object whatever was imported before."""
        hidden = {name for name, home in exports(room).items() if f"{room}.{name}" in FILES.keys() - {home}}
        assert hidden == set()

    def test_only_runs_names_the_files_of_a_run(self) -> None:
        naming = set()
        for file in (it for it in FILES.values() if not path_of(it).startswith("runs/")):
            texts = {node.value for node in nodes_of(file) if isinstance(node, ast.Constant)}
            if texts & set(RUN_FILES):
                naming.add(path_of(file))
        assert naming == set(NAME_RUN_FILES), "call a method of Run, or give the reason in NAME_RUN_FILES"

    def test_the_library_never_prints_and_never_pickles(self) -> None:
        for file in FILES.values():
            nodes = nodes_of(file)
            calls = [node.func for node in nodes if isinstance(node, ast.Call)]
            assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"], file
            imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            assert not {"pickle", "joblib", "dill"} & imports, file

    @pytest.mark.parametrize("folder", ["benchmarks", "docs/_ext", "examples", "tools"])
    def test_scripts_import_names_that_exist(self, folder: str) -> None:
        """No test runs most of them."""
        lines = [line for script in (ROOT / folder).glob("*.py") for line in ast.walk(tree_of(script))]
        wanted = [
            line for line in lines if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("recprism")
        ]
        names = {(str(line.module), alias.name) for line in wanted for alias in line.names}
        assert [name for name in names if not hasattr(import_module(name[0]), name[1])] == []

    def test_one_asks_for_the_version(self) -> None:
        asking = [file for file in FILES.values() if 'version("recprism")' in file.read_text(encoding="utf-8")]
        assert asking == [SOURCE / "common/version.py"]


def _passes_on(node: ast.stmt) -> bool:
    is_all = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Import | ast.ImportFrom) or is_all or is_text


class TestTheFrontDoor:
    def test_import_loads_next_to_nothing(self) -> None:
        code = """
import json, sys
before = set(sys.modules)
import recprism
print(json.dumps([*set(sys.modules) - before]))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        loaded = json.loads(done.stdout)
        own = {name for name in loaded if name.startswith("recprism")}
        assert own == {"recprism", "recprism.common", "recprism.common.lazy"}
        assert {name.split(".")[0] for name in loaded} <= {"recprism", *sys.stdlib_module_names}
        assert len(loaded) < 60

    @pytest.mark.slow
    def test_rooms_and_names_are_there_after_import_alone(self) -> None:
        code = """
import recprism
assert recprism.metrics.evaluate is recprism.evaluate
assert recprism.errors.InputError
assert recprism.metrics.accuracy.__name__ == "recprism.metrics.accuracy"
assert isinstance(recprism.__version__, str)
"""
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_dir_lists_the_public_names_and_the_rooms(self) -> None:
        listed = set(dir(recprism))
        assert set(recprism.__all__) == set(exports("recprism")) <= listed
        assert {room.split(".")[1] for room in ROOMS if room.count(".") == 1} <= listed
        assert not {name for name in listed if name.startswith("_") and not name.startswith("__")}

    @pytest.mark.parametrize("room", ROOMS)
    def test_every_name_of_a_stub_exists(self, room: str) -> None:
        module = import_module(room)
        assert sorted(module.__all__) == sorted(exports(room))
        for name in exports(room):
            assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            module.nothing  # noqa: B018

    def test_a_public_name_has_one_home(self) -> None:
        homes: dict[str, set[str]] = {}
        for room in ROOMS:
            for name, home in exports(room).items():
                homes.setdefault(name, set()).add(home)
        assert {name: found for name, found in homes.items() if len(found) > 1} == {}

    def test_public_names_are_few(self) -> None:
        assert len({name for room in ROOMS for name in exports(room)}) <= MOST_NAMES
        assert len(recprism.__all__) <= MOST_NAMES_AT_THE_TOP


STABILITY = re.compile(r"^Stability: (stable|provisional|experimental)\.$", re.MULTILINE)


@pytest.mark.parametrize("room", [*sorted(ROOMS.keys() - {"recprism"}), "recprism.errors"])
def test_a_room_says_how_stable_it_is(room: str) -> None:
    """Once, in its docstring. A public object that differs says so in its own; CONTRIBUTING.md explains the levels."""
    module = import_module(room)
    (level,) = STABILITY.findall(inspect.getdoc(module) or "")
    names = [name for name, home in exports(room).items() if home.startswith(room)] if room in ROOMS else dir(module)
    levels = {name: STABILITY.findall(inspect.getdoc(getattr(module, name)) or "") for name in names}
    assert not {name: said for name, said in levels.items() if said and said[0] == level}, "the room says so already"


def test_nothing_else_says_how_stable_it_is() -> None:
    public = {(home, name) for room in ROOMS for name, home in exports(room).items()}
    wrong = []
    for module, file in FILES.items():
        for node in nodes_of(file):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and "Stability: " in (ast.get_docstring(node) or ""):
                wrong += [] if (module, node.name) in public or module == "recprism.errors" else [(module, node.name)]
    assert wrong == []


def test_contributing_shows_the_same_map() -> None:
    (shown,) = re.findall(
        r"```text\nsrc/recprism/\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert tuple(re.findall(r"^  (\w+)(?:/|\.py) ", shown, re.MULTILINE)) == ORDER
