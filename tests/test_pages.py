"""The pages keep their promises: short sentences first, two screens a guide, one figure for one thing."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
DOCS, README = ROOT / "docs", ROOT / "README.md"
GUIDES = sorted((DOCS / "how-to").glob("*.md"))
TASKS = ("own-data", "own-vectors", "choose-a-budget", "read-a-report", "ship", "monitor", "own-metric")
LINES_OF_A_SCREEN, MOST_WORDS_AT_FIRST, MOST_IN_A_GROUP = 45, 25, 6
# The result of the tutorial, 5 % of NDCG@10: what its tables and sentences print, on every page that shows them.
BASE_COVERAGE, COVERAGE, GAIN = "0.5956", "0.7438", "24.9"
BASE_NDCG, NDCG, LOSS = "0.1887", "0.1842", "2.4"
FIGURES = {
    "README.md": (f"subtopic_coverage@10: {BASE_COVERAGE} -> {COVERAGE}", f"ndcg@10: {BASE_NDCG} -> {NDCG}"),
    "docs/tutorial.md": (
        rf"subtopic_coverage@10 +{BASE_COVERAGE} +{COVERAGE} +\+{GAIN}%",
        rf"ndcg@10 +{BASE_NDCG} +{NDCG} +-{LOSS}%",
        rf"Categories in a list: 11.3 -> 14.1 of 19, .*\nAccuracy: {LOSS} % lower",
        rf"Within a 5 % budget of NDCG@10: \+{GAIN} % subtopic_coverage@10",
    ),
    "docs/how-to/choose-a-budget.md": (rf"Within a 5 % budget of NDCG@10: \+{GAIN} % subtopic_coverage@10",),
    "docs/how-to/read-a-report.md": (rf"Categories in a list: 11.3 -> 14.1 of 19, .*\nAccuracy: {LOSS} % lower",),
    "docs/how-to/check-in-a-pipeline.md": (r"loss of ndcg@10 \+2\.40%", r"gain of subtopic_coverage@10 \+24\.88%"),
    "docs/how-to/experiment.md": (
        rf"{BASE_NDCG} +{NDCG}",
        rf"{BASE_COVERAGE} +{COVERAGE}",
        r"measured -2\.40%",
        r"measured \+24\.88%",
    ),
    "docs/method.md": (rf"On the test part they lose {LOSS} %, and SC rises by {GAIN} %",),
}
JUDGES = "601 users of the validation part"
SAME_SENTENCE = f"Measured loss on {JUDGES}: 1.66 % of ndcg@10. Certified: at most 5 % of ndcg@10"


def _prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose_of_pages", ROOT / "tools" / "check_prose.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = _prose()


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_first_screen_of_the_readme_has_short_sentences() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    sentences = [
        sentence
        for passage in prose.markdown_passages(first)
        for _, sentence in prose.sentences(prose.plain_text(passage.text))
    ]
    assert len(sentences) > 5
    assert [it for it in sentences if prose.word_count(it) > MOST_WORDS_AT_FIRST] == []


def test_the_first_screen_of_the_readme_has_what_a_newcomer_needs() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    for needed in ("make demo", "make test", "docs/list.svg", "<!-- example -->", "Python 3.11"):
        assert needed in first, needed


def test_features_come_in_groups_of_at_most_six() -> None:
    groups = _text("docs/index.md").split("\n## ")[1:6]
    sizes = [len(re.findall(r"^\| (?!You want|---)", group, re.MULTILINE)) for group in groups]
    assert all(1 <= size <= MOST_IN_A_GROUP for size in sizes)


def test_the_readme_has_two_screens() -> None:
    assert len(_text("README.md").splitlines()) <= 2 * LINES_OF_A_SCREEN + 10  # the output of the example


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_has_at_most_two_screens(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 2 * LINES_OF_A_SCREEN


def test_every_task_has_a_guide_and_a_row_on_the_first_page() -> None:
    index = _text("docs/index.md")
    for task in TASKS:
        assert (DOCS / "how-to" / f"{task}.md").exists()
        assert f"(how-to/{task}.md)" in index, task


@pytest.mark.parametrize("name", FIGURES)
def test_one_figure_is_the_same_on_all_pages(name: str) -> None:
    """tests/test_docs.py and tests/test_readme.py compare these figures with what is printed."""
    text = _text(name)
    assert [figure for figure in FIGURES[name] if not re.search(figure, text)] == []


def test_the_certificate_reads_the_same_on_all_pages() -> None:
    for name in ("README.md", "docs/tutorial.md"):
        assert SAME_SENTENCE in _text(name), name


def test_no_page_shows_another_gain_of_the_tutorial() -> None:
    """A figure of an older result would still be within the tolerance of tests/test_docs.py."""
    pages = [README, DOCS / "tutorial.md", DOCS / "explain.md", *GUIDES]
    rows = [
        (page.name, values)
        for page in pages
        for values in re.findall(rf"{BASE_COVERAGE} +(0\.\d{{4}})(?! \.\.)", page.read_text(encoding="utf-8"))
    ]
    assert {value for _, value in rows} == {COVERAGE}, rows


def test_the_picture_of_the_readme_shows_the_reasons_of_the_docs() -> None:
    root = ElementTree.parse(DOCS / "list.svg").getroot()
    shown = "\n".join(part.text or "" for part in root.iter("{http://www.w3.org/2000/svg}text"))
    rows = re.findall(r"^ +\d+ {2}(.+?) {2,}(\d+) {2}(stayed|new) +(.+)$", _text("docs/explain.md"), re.MULTILINE)
    assert len(rows) == 10
    for title, rank, state, reason in rows:
        assert title in shown and reason in shown
        assert state == "stayed" or f"Number {rank} by relevance alone" in shown


def test_every_picture_has_its_command_in_the_gallery() -> None:
    gallery = _text("docs/gallery.md")
    for picture in ("list.svg", "report.png", "studio.png", "front.svg"):
        assert f"({picture})" in gallery
    for tool in re.findall(r"python (tools/\w+\.py)", gallery):
        assert (ROOT / tool).exists(), tool
    drawn = re.search(r"^pictures:.*\n((?:\t.*\n)+)", _text("Makefile"), re.MULTILINE)
    assert drawn is not None
    for tool in ("list_image", "report_images", "studio_image", "front"):
        assert f"tools/{tool}.py" in drawn[1]


def test_the_rivals_of_the_chart_are_those_of_its_words() -> None:
    named = json.loads(_text("docs/front.json"))["change_in_percent"]
    alt = re.search(r"!\[([^\]]+)\]\(docs/front\.svg\)", _text("README.md"))
    assert alt is not None
    for word in ("xQuAD", "DPP", "MMR", "calibrated"):
        assert word in alt[1] and any(word.lower() in name.lower() for name in named), word


def test_the_page_of_the_paper_is_what_its_tool_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    page = importlib.import_module("paper_docs").page()
    assert page == _text("docs/paper.md")
    assert "<!-- ours" not in page and "<!-- paper" not in page


def test_the_page_of_the_contest_is_what_its_tool_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool = importlib.import_module("frontier_docs")
    assert tool.page(tool.contest()) == _text("docs/frontier.md")


def test_the_first_page_counts_the_figures_of_the_paper_as_its_page_does() -> None:
    near = re.search(r"Of (\d+) figures, (\d+) are within two standard deviations", _text("docs/paper.md"))
    assert near is not None
    assert f"{near[2]} of {near[1]} ML-1M figures come out within two standard deviations" in _text("docs/index.md")
