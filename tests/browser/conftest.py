"""A real browser, the synthetic content of the report tests, and runs for the studio."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_tests = Path(__file__).parents[1]
_report = runpy.run_path(str(_tests / "report" / "conftest.py"))
content, explained, rule, users = (_report[name] for name in ("content", "explained", "rule", "users"))
shelf = runpy.run_path(str(_tests / "studio" / "conftest.py"))["shelf"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Module scope: an open browser runs an event loop, and no other test could start one."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: pages are not tested in a browser (apt-get install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pages are not tested in a browser"
    )
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()
