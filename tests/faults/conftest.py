"""The harnesses are scripts in tools/faults, which import each other by name."""

from __future__ import annotations

import sys
from pathlib import Path

HARNESSES = Path(__file__).parents[2] / "tools" / "faults"
sys.path.insert(0, str(HARNESSES))
