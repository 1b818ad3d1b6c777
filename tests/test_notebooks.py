"""Every notebook runs from top to bottom; none is stored with outputs, so that a change can be read."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.notebooks
FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NEEDED = {"audit_my_implicit_model": ("implicit",)}
SHOWN = {
    "add_my_own_metric": ("<th>after</th>",),
    "audit_my_implicit_model": ("<iframe srcdoc=", "UserReasons(", "best matches for you"),
    "explain_my_filter_bubble": ("<iframe srcdoc=", "UserReasons(", "best matches for you"),
}
"""What the cells show inline: a report, a list with its reasons."""


def test_there_is_one_for_each_task() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "add_my_own_metric",
        "audit_my_implicit_model",
        "explain_my_filter_bubble",
        "reproduce_the_paper",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    assert book.cells[0].source.startswith("# ")


@pytest.mark.filterwarnings("ignore")  # Jupyter's own, about sockets and paths
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.needs(*NEEDED.get(path.stem, ())), id=path.stem) for path in NOTEBOOKS],
)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that raises fails the test, with its traceback."""
    from nbclient import NotebookClient

    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # as the command line has it: threads that spin cost others much
    book = nbformat.read(path, as_version=4)
    client = NotebookClient(book, kernel_name="python3", timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    html = "".join(it.get("data", {}).get("text/html", "") for cell in code for it in cell.outputs)
    assert [shown for shown in SHOWN.get(path.stem, ()) if shown not in html] == []


@pytest.mark.filterwarnings("ignore")
def test_a_cell_that_raises_is_seen(tmp_path: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(book, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
