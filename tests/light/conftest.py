"""The light installation, numpy and numba alone; `make test-light` runs this folder without the conftest above it.

``recorded`` holds an export and lists of the full installation, made by tools/record_light.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from recprism import serving

RECORDED = Path(__file__).parent / "recorded"

settings.register_profile("recprism", deadline=None, derandomize=True)
settings.load_profile("recprism")


@pytest.fixture(scope="session")
def rule() -> serving.ServedRule:
    """The rule of the stored export: two goals, the user's history, a ban and a share of dramas."""
    return serving.load_rule(RECORDED)


@pytest.fixture(scope="session")
def requests() -> list[dict[str, Any]]:
    """Requests of some users, and the lists and reasons that the full installation gave."""
    found: list[dict[str, Any]] = json.loads((RECORDED / "lists.json").read_text(encoding="utf-8"))
    return found
