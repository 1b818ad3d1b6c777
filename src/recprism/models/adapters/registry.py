"""Adapters by name. To add an adapter, add a line to ``ADAPTERS``."""

from __future__ import annotations

from collections.abc import Callable

from recprism.models.adapters.arrays import from_files
from recprism.models.adapters.cornac import from_cornac
from recprism.models.adapters.implicit import from_implicit
from recprism.models.adapters.lenskit import from_lenskit
from recprism.models.adapters.recbole import from_recbole
from recprism.models.factors import Factors

ADAPTERS: dict[str, Callable[..., Factors]] = {
    "arrays": from_files,
    "cornac": from_cornac,
    "implicit": from_implicit,
    "lenskit": from_lenskit,
    "recbole": from_recbole,
}
