"""The made-up content of the report's own tests, for the browser."""

from __future__ import annotations

import runpy
from pathlib import Path

_shared = runpy.run_path(str(Path(__file__).parents[1] / "report" / "conftest.py"))
content, explained = _shared["content"], _shared["explained"]
