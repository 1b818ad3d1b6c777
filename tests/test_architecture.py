"""The laws of the layout: imports point leftwards, and the numerical core needs torch and numpy alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recprism

SOURCE = Path(recprism.__file__).parent
ORDER = (
    "_compile",
    "_lazy",
    "_version",
    "errors",
    "data",
    "text",
    "ranking",
    "metrics",
    "models",
    "rerank",
    "dials",
    "cmb",
    "budget",
    "explain",
    "runs",
    "deploy",
    "api",
    "parallel",
    "paper",
    "report",
    "studio",
    "cli",
    "testing",
)
CORE = [name for name in ("ranking", "metrics", "models", "rerank", "dials", "cmb") if (SOURCE / name).exists()]
NOT_IN_THE_CORE = ("polars", "pydantic", "scipy", "safetensors", "pandas", "rich", "typer", "tomli_w")


def imported_parts(file: Path) -> set[str]:
    """Top-level parts of recprism that a file imports, wherever in the file; type-only imports count as well."""
    parts = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        parts |= {name.split(".")[1] for name in names if name.startswith("recprism.")}
    return parts


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_leftwards(file: Path) -> None:
    part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return  # the lazy front door
    allowed = set(ORDER[: ORDER.index(part) + 1])
    assert imported_parts(file) <= allowed, f"{part} may import only {sorted(allowed)}"


def test_the_version_is_asked_for_in_one_place() -> None:
    """Which knows what to say where the package is not installed."""
    asking = [file for file in SOURCE.rglob("*.py") if 'version("recprism")' in file.read_text(encoding="utf-8")]
    assert asking == [SOURCE / "_version.py"]


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {
        path.name.removesuffix(".py")
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert parts - {"__init__", "__main__", "testing"} <= set(ORDER)


@pytest.mark.parametrize("part", CORE)
def test_the_core_imports_with_torch_and_numpy_alone(part: str) -> None:
    code = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {NOT_IN_THE_CORE!r}:
            raise ImportError(f"{{name}} is blocked in this test")
sys.meta_path.insert(0, Block())
import recprism.{part}
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_front_door_is_lazy() -> None:
    code = "import sys, recprism; assert not {'torch', 'polars', 'numpy'} & set(sys.modules), 'heavy imports'"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(recprism.__all__) <= 13
    for name in recprism.__all__:
        assert getattr(recprism, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        recprism.nothing  # noqa: B018


def test_the_library_never_prints_and_never_pickles() -> None:
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"], file
        imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert not {"pickle", "joblib", "dill"} & set(imports), file
