"""The harnesses stand beside their tests and are run as scripts, too: they find each other by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
