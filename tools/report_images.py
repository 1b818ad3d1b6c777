"""Draw docs/report.png: the first screen of a report; needs chromium and the extra [test].

python tools/report_images.py runs/ml1m/report.html

`make pictures` makes the run and its report first.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parents[1] / "docs" / "report.png"


def main(report: Path) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        size = {"width": 1160, "height": 1120}
        page = browser.new_page(viewport=size, color_scheme="light", device_scale_factor=1.25)
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("svg")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
