"""The screens of the pictures: 1,280 and 390 wide, light and dark, of a page in chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
HEIGHT = {1280: 1000, 390: 844}


def draw(name: str, open_page: Callable[[Any], None]) -> None:
    """Write docs/NAME.png (1,280, light), and the same with -390, -dark and -390-dark.

    Args:
        name: Of the pictures.
        open_page: Opens an empty page and waits until it is drawn.
    """
    with _chromium() as browser:
        for width, height in HEIGHT.items():
            for scheme in ("light", "dark"):
                size = {"width": width, "height": height}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.set_default_timeout(180_000)
                open_page(page)
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide on a screen of {width}"
                narrow, dark = "" if width == 1280 else f"-{width}", "" if scheme == "light" else "-dark"
                page.screenshot(path=DOCS / f"{name}{narrow}{dark}.png")
                page.close()


@contextmanager
def _chromium() -> Iterator[Any]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
