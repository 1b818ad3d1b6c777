"""Pictures of a report, for the docs; needs chromium and the extra [test].

python tools/report_images.py runs/films/report.html            its parts, for docs/how-to/read-a-report.md
python tools/report_images.py runs/ml1m/report.html --first     its first screen, docs/report.png

The first run is the tutorial's (docs/tutorial.md), its report as that page writes it; the second is
`recprism train --data ml-1m -o runs/ml1m && recprism diversify runs/ml1m --budget 0.01 && recprism report runs/ml1m`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
FOLDER, FIRST_SCREEN = DOCS / "how-to" / "report", DOCS / "report.png"
PARTS = {
    "headline": "#headline",
    "front": "#figure-front",
    "payers": "#figure-payers",
    "categories": "#figure-categories",
    "user": "#user-1",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("report", type=Path)
    options.add_argument("--first", action="store_true", help="the first screen instead of the parts")
    asked = options.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        size = {"width": 1160, "height": 1120} if asked.first else {"width": 1000, "height": 900}
        page = browser.new_page(viewport=size, color_scheme="light", device_scale_factor=1.25 if asked.first else 1.0)
        page.goto(asked.report.resolve().as_uri())
        page.wait_for_selector("#chart-front svg")
        page.wait_for_load_state("networkidle")
        if asked.first:
            page.screenshot(path=FIRST_SCREEN)
        else:
            FOLDER.mkdir(exist_ok=True)
            for name, where in PARTS.items():
                page.locator(where).screenshot(path=FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
