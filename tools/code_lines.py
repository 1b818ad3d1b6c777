"""Count the lines of code of src/recprism, in all and by room, and its public names.

python tools/code_lines.py           the package
python tools/code_lines.py tests     the Python files of another folder

A line counts if it holds a token of code; docstrings, comments and blank lines do not. A statement over three lines is
three lines, and so are the inner lines of a string that is no docstring. Stubs (.pyi) are not counted; they list
the public names.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "recprism"
TOP = "(top)"
"""The room of the files that lie in no folder."""
NO_CODE = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", type=Path, nargs="?", default=PACKAGE, help="a folder (default: src/recprism)")
    root = parser.parse_args().root
    if not root.is_dir():
        parser.error(f"{root} is no folder")
    rooms = by_room(root)
    name = "src/recprism" if root == PACKAGE else root
    print(f"{sum(rooms.values()):,} code lines in {name}, without docstrings, comments and blank lines")
    for room, lines in rooms.most_common():
        print(f"{lines:8,}  {room}")
    if names := public_names(root):
        print(f"{len(names):,} public names in the stubs")


def by_room(root: Path) -> Counter[str]:
    """Count the code lines of every first folder under ``root``."""
    rooms: Counter[str] = Counter()
    for path in sorted(root.rglob("*.py")):
        folder = path.relative_to(root).parent.parts
        rooms[folder[0] if folder else TOP] += code_lines(path.read_text(encoding="utf-8"))
    return rooms


def public_names(root: Path) -> set[str]:
    """Find the names that the stubs under ``root`` list."""
    return {line.split()[-1] for stub in root.rglob("__init__.pyi") for line in stub.read_text("utf-8").splitlines()}


def code_lines(source: str) -> int:
    """Count the physical lines of ``source`` that hold at least one token of code."""
    lines: set[int] = set()
    docstrings = docstring_starts(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE and token.start not in docstrings:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def docstring_starts(source: str) -> set[tuple[int, int]]:
    """Find where docstrings begin: of modules, classes and functions, and the strings below an assignment.

    The latter document a constant or a field; to Python they are statements without effect.
    """
    return {
        (node.value.lineno, node.value.col_offset)
        for owner in ast.walk(ast.parse(source))
        for body in bodies(owner)
        for node in body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def bodies(owner: ast.AST) -> list[list[ast.stmt]]:
    return [owner.body] if isinstance(owner, DOCUMENTED) else []


if __name__ == "__main__":
    main()
