"""The report in a real browser: charts are drawn without errors, lists and reasons are read, the keyboard suffices."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from recprism.explain.explained import ExplanationInShort
from recprism.report.content import Content
from recprism.report.html import render


@pytest.fixture
def page_file(content: Content, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(render(content), encoding="utf-8")
    return path


def opened(browser: Any, path: Path, width: int, scheme: str = "light") -> tuple[Any, list[str], list[str]]:
    """The page after all charts are drawn, its errors, and its requests."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.querySelectorAll('.chart svg').length === document.querySelectorAll('.chart').length"
    )
    return page, complaints, asked


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_charts_are_drawn_and_fit(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    page, complaints, asked = opened(browser, page_file, width, scheme)
    assert complaints == []
    assert asked == [page_file.as_uri()], "the page asks for nothing but itself"
    assert page.locator(".chart svg").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out at the side"
    for chart in page.locator(".chart svg").all():
        assert chart.bounding_box()["height"] > 80
    page.close()


def test_the_first_screen_answers_and_advises(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1280)
    for place in (page.locator("#headline .say-gain"), page.locator("#headline .next li").first):
        box = place.bounding_box()
        assert box["y"] + box["height"] < 900, "it is on the first screen"
    assert page.locator("#headline .next code").inner_text() == "recprism export runs/made-up"
    page.close()


def test_lists_are_side_by_side_with_reasons_and_dials(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1280)
    before, after = (page.locator("#user-1 .lists > div").nth(at).bounding_box() for at in (0, 1))
    assert before["y"] == after["y"]
    assert after["x"] >= before["x"] + before["width"]
    reason = page.locator("#user-1 .entry.new .reason")
    assert reason.is_visible()
    assert reason.inner_text() == "Adds War; replaces Old & gone."
    assert page.locator("#user-1 .entry.new .title").inner_text().startswith("<script>alert(1)</script>")
    widths = [it.bounding_box()["width"] for it in page.locator("#user-1 .bar").all()]
    assert widths[1] == pytest.approx(0.4 * widths[0], rel=0.05)
    page.set_viewport_size({"width": 390, "height": 900})
    before, after = (page.locator("#user-1 .lists > div").nth(at).bounding_box() for at in (0, 1))
    assert after["y"] >= before["y"] + before["height"], "one below the other on a telephone"
    page.close()


def test_screen_readers_get_names(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1280)
    assert page.get_by_role("region", name="Headline").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    assert page.get_by_role("article", name="User 17 typical").count() == 1
    assert page.get_by_role("list", name="What the list adds to scores").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((it) => Number(it.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), "no level is skipped"
    page.close()


def test_the_keyboard_reaches_every_section(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1000)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#headline"
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href')"))
    assert reached == ["#users", "#why", "#front", "#pays", "#appendix"]
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#appendix"
    page.close()


def test_a_rule_shows_its_categories(browser: Any, content: Content, rule: ExplanationInShort, tmp_path: Path) -> None:
    path = tmp_path / "rule.html"
    path.write_text(render(replace(content, explained=None, rule=rule)), encoding="utf-8")
    page, complaints, _ = opened(browser, path, 390)
    assert complaints == []
    assert page.locator("#chart-categories svg").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_summaries_open_with_the_keyboard(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1000)
    table = page.locator("#figure-front table")
    assert not table.is_visible()
    page.locator("#figure-front summary").focus()
    page.keyboard.press("Enter")
    assert table.is_visible()
    page.close()


def test_print_shows_reasons_without_a_pointer(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1000)
    page.emulate_media(media="print")
    assert page.locator(".entry .reason").first.is_visible()
    assert not page.locator("nav").is_visible()
    page.close()
