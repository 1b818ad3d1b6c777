"""The report in a real browser: charts are drawn without errors, the keyboard reaches a swap and its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recprism.report import render
from recprism.report.content import Content


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
@pytest.mark.parametrize("width", [390, 820, 1400])
def test_charts_are_drawn_and_fit(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    page, complaints, asked = opened(browser, page_file, width, scheme)
    assert complaints == []
    assert asked == [page_file.as_uri()], "the page asks for nothing but itself"
    assert page.locator(".chart svg").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out at the side"
    for chart in page.locator(".chart svg").all():
        assert chart.bounding_box()["height"] > 80
    page.close()


def test_the_keyboard_reaches_a_swap_and_its_reason(browser: Any, page_file: Path) -> None:
    page, _, _ = opened(browser, page_file, 1000)
    reason = page.locator(".entry .reason").first
    assert not reason.is_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.entry.new')"):
            break
    assert reason.is_visible()
    assert reason.inner_text() == "It replaced Old."
    page.keyboard.press("Escape")
    assert not reason.is_visible()
    page.locator(".entry.new").first.hover()
    assert reason.is_visible()
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
