"""Draw docs/studio.png: one user in the studio over a real run.

python tools/studio_image.py runs/ml1m

`make pictures` makes the run first.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"


def main(run: str) -> None:
    command = [sys.executable, "-m", "recprism", "studio", run, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    link = next(found.group() for line in server.stderr if (found := re.search(r"http://\S+", line)))
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 960})
            page.set_default_timeout(180_000)
            page.goto(f"{link}#user=17")
            page.wait_for_selector("#after .entry.new .reason")
            page.screenshot(path=str(DOCS / "studio.png"))
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
