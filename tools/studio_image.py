"""Draw docs/studio*.png: one user in the studio over a real run.

python tools/studio_image.py runs/ml1m

`make pictures` makes the run first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

from screens import draw


def main(run: str) -> None:
    command = [sys.executable, "-m", "recprism", "studio", run, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    link = next(found.group() for line in server.stderr if (found := re.search(r"http://\S+", line)))

    def open_page(page: Any) -> None:
        page.goto(f"{link}#user=17")
        page.wait_for_selector("#after .entry.new .reason")

    try:
        draw("studio", open_page)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
