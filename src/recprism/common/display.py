"""How objects display themselves: one line in a terminal, a table in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


class Displayed(ABC):
    """Adds a short ``repr``, a table for notebooks, and ``to_frame`` to a class that has ``to_dict``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""

    def to_frame(self) -> pl.DataFrame:
        """Return one row per fact; classes with tabular data override this."""
        import polars as pl

        facts = {name: value for name, value in self.to_dict().items() if not isinstance(value, (Mapping, list))}
        return pl.DataFrame({"fact": list(facts), "value": [str(value) for value in facts.values()]})

    def __repr__(self) -> str:
        facts = (f"{name}={_short(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        table: str = self.to_frame()._repr_html_()
        return f"<p>{escape(repr(self))}</p>{table}"

    def _facts(self) -> Mapping[str, Any]:
        """Return what the line shows."""
        return {name: it for name, it in self.to_dict().items() if isinstance(it, (str, int, float, type(None)))}


def _short(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
