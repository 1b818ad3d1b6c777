"""The extras of the package: what each one brings, what works without any, and what is said where a package is missing.

``pip install recprism`` installs numpy and numba. The modules in ``LIGHT`` need no more. Every other public name and
every command needs an extra, and says so in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from recprism.errors import MissingDependencyError

SERVE: tuple[str, ...] = (
    "fastapi",
    "uvicorn",
    "httptools",
    "orjson",
    "prometheus_client",
    "polars",
    "pydantic",
    "typer",
    "rich",
    "tomli_w",
)
EXTRAS: dict[str, tuple[str, ...]] = {
    "full": ("torch", "scipy", "safetensors", "jinja2", "altair", *SERVE),
    "serve": SERVE,
    "adapters": ("implicit",),
    "ann": ("faiss",),
    "cornac": ("cornac",),
    "lenskit": ("lenskit",),
    "haystack": ("haystack",),
    "langchain": ("langchain_core",),
    "llamaindex": ("llama_index",),
    "contest": ("ortools",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "ray": ("ray",),
    "text": ("textblob", "vaderSentiment"),
    "test": ("pytest", "hypothesis", "ranx", "pyversity", "sklearn", "nbclient", "ipykernel"),
}
"""The modules of each extra. Where the first one is missing, the extra was not asked for."""

LIGHT: tuple[str, ...] = ("common.version", "common.progress", "common.shares", "errors", "serving", "integrations")
LIGHT += ("service.answers", "service.client", "budget.promise", "forms.rule_file")
LIGHT += (
    "explain.reasons.reason",
    "rule.constraints.constraints",
    "rule.constraints.fields",
    "rule.constraints.violations",
)
"""What numpy and numba are enough for. Within ``service`` the rest needs [serve]; everything else needs [full]."""

_found: set[tuple[str, ...]] = set()


def extra_of(module: str) -> str | None:
    """Return the extra that a public module needs; None if numpy and numba are enough."""
    inside = module.removeprefix("recprism.") + "."
    if inside.startswith(tuple(f"{name}." for name in LIGHT)):
        return None
    return "serve" if inside.startswith("service.") else "full"


def missing_from(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require(what: str, extra: str, *, whole: bool = True) -> None:
    """Refuse what an extra is needed for. Packages that were found are not looked for again.

    Args:
        what: What needs the extra.
        extra: The extra.
        whole: Whether all of its packages are needed, or only the first one: an environment with torch alone is enough
            for much of the library.

    Raises:
        MissingDependencyError: If a package is not installed.
    """
    needed = EXTRAS[extra] if whole else EXTRAS[extra][:1]
    if needed in _found:
        return
    if gone := [module for module in needed if find_spec(module) is None]:
        raise _error(what, gone[0], extra)
    _found.add(needed)


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Import packages of an extra; an ``ImportError`` becomes one sentence.

    Raises:
        MissingDependencyError: If one of them cannot be imported.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or EXTRAS[extra][0]).partition(".")[0]
        raise _error(what, package, extra) from problem
    except ImportError as problem:  # it is there, and broken, or of another version
        raise MissingDependencyError(
            f"{what} cannot import its packages ({problem}); see recprism[{extra}]"
        ) from problem


def _error(what: str, package: str, extra: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{what} needs {package}, which is not installed; run: pip install 'recprism[{extra}]'"
    )
