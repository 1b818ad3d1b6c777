"""Pictures of a report's parts, for docs/how-to/read-a-report.md; needs chromium and the extra [test].

python tools/report_images.py runs/films/report.html

The run is the tutorial's (docs/tutorial.md), its report as that page writes it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "how-to" / "report"
PARTS = {
    "verdict": "#verdict",
    "front": "#figure-front",
    "payers": "#figure-payers",
    "controls": "#figure-controls",
    "user": "#user-1",
}


def main() -> None:
    report = Path(sys.argv[1]).resolve()
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector("#chart-front svg")
        page.wait_for_load_state("networkidle")
        for name, where in PARTS.items():
            page.locator(where).screenshot(path=FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
