"""The tests import the scripts of tools/faults, which import each other by name and also run on their own."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "faults"))
