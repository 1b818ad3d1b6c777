"""Draw docs/report*.png: the first screen of a report; needs chromium and the extra [test].

python tools/report_images.py runs/ml1m/report.html

`make pictures` makes the run and its report first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from screens import draw


def main(report: Path) -> None:
    def open_page(page: Any) -> None:
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("svg")
        page.wait_for_load_state("networkidle")

    draw("report", open_page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
