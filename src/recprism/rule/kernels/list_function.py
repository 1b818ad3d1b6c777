"""Goals that are Python functions of one list. A goal is stored by the name of its function, never by its code.

A name in a file does not import anything: the module of a stored function must be imported already, or be named by
``RECPRISM_IMPORT``.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.rule.kernels.described import describe

CATEGORIES, VECTORS = "categories", "vectors"
IMPORTED = "RECPRISM_IMPORT"
TAKES: dict[tuple[str, ...], Callable[[Any], tuple[Any, ...]]] = {
    (CATEGORIES,): lambda both: (both[0],),
    (VECTORS,): lambda both: (both[1],),
    (CATEGORIES, VECTORS): lambda both: both,
    (VECTORS, CATEGORIES): lambda both: (both[1], both[0]),
}
"""What a function can take, out of both."""

Lists = NDArray[np.int64]


class ListFunction:
    """A function that gives a list of items a number; the larger, the better.

    Args:
        function: Its parameters are ``categories``, ``vectors`` or both. It receives an array with one row per item, in
            the order of the list: 1.0 for each category of the item and 0.0 for the others, (m, n_categories); unit
            vectors, (m, d). Item numbers are not among them, because other data has other numbers.

    Attributes:
        name: ``module:name``.
        takes: Its parameters.

    Raises:
        InputError: The function cannot be stored by its name, or takes something else.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        plain = getattr(function, "py_func", function)  # of a function that numba compiled already
        self._function, self.name = plain, _stored_name(function, plain)
        self._is_checked = False
        self.takes = tuple(inspect.signature(plain).parameters)
        if self.takes not in TAKES:
            raise InputError(
                f"the goal {self.name} takes ({', '.join(self.takes)}); a function of a list takes categories, "
                "vectors or both, one row per item, and no item numbers, which other data has others of"
            )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the source of the function."""
        return hashlib.sha256(inspect.getsource(self._function).encode()).hexdigest()[:16]

    def require(self, fingerprint: str | None) -> None:
        """Refuse a stored result whose function had another source.

        Raises:
            InputError: The function changed.
        """
        if fingerprint != self.fingerprint:
            raise InputError(f"the function {self.name} has changed since this was made with it; make it again")

    @cached_property
    def hindrance(self) -> str | None:
        """Why numba does not compile the function; None if it does."""
        try:
            numba.njit(self._function).compile((numba.float64[:, ::1],) * len(self.takes))  # the clearest error
            self._compiled(*_EXAMPLE, np.empty(0))
        except Exception as error:  # numba raises errors of many kinds
            said = (line.strip() for line in str(error).splitlines())
            return next((it for it in said if it and not it.startswith("Failed in")), type(error).__name__)
        return None

    def values(self, lists: Lists, *data: Any) -> NDArray[np.float64]:
        """Value lists.

        Args:
            lists: Item numbers, (n, k); -1 leaves a place empty. An empty list has the value 0.
            *data: ``indptr``, ``indices``, ``n_categories``, ``unit`` and ``known`` of
                :func:`recprism.rule.kernels.optimal.optimal`.

        Raises:
            InputError: The function fails, or returns something else than a finite number.
        """
        found, expected = np.zeros(len(lists)), np.zeros(1)
        try:
            (self._plain if self.hindrance else self._compiled)(lists, *data, found)
            if not self._is_checked and len(lists):
                self._plain(lists[:1], *data, expected)
                self._is_checked = bool((lists[0] >= 0).any())
        except Exception as error:
            raise InputError(f"the goal {self.name} fails on a list ({type(error).__name__}: {error})") from error
        wrong = np.flatnonzero(~np.isfinite(found))
        if len(wrong):
            n = int((lists[wrong[0]] >= 0).sum())
            raise InputError(
                f"the goal {self.name} returns {found[wrong[0]]} for a list of {n} items; return a finite number"
            )
        if expected[0] and not np.isclose(found[0], expected[0], rtol=1e-6):
            raise InputError(
                f"the goal {self.name} returns {found[0]:g} and then {expected[0]:g} for one list; it must not depend "
                "on chance or on what other calls change, and numba must compute the same as Python"
            )
        return found

    @cached_property
    def _plain(self) -> Callable[..., None]:
        return _filler(self._function, TAKES[self.takes])

    @cached_property
    def _compiled(self) -> Any:
        function = numba.njit(boundscheck=True)(self._function)
        return numba.njit(nogil=True)(_filler(function, numba.njit(TAKES[self.takes])))


_EXAMPLE = (np.empty((0, 1), np.int64), np.zeros(2, np.int64), np.empty(0, np.int32), 1, np.zeros((1, 1)), np.zeros(1))
_known: dict[str, ListFunction] = {}


def known_function(of: str | Callable[..., Any]) -> ListFunction:
    """Return the function of a list, or of the name by which one is stored.

    Raises:
        InputError: It is no function that can be a goal, or the module of a name is not imported.
    """
    function = _function_named(of) if isinstance(of, str) else of
    found = ListFunction(function)
    before = _known.get(found.name)
    if before is None or before._function is not found._function:
        _known[found.name] = found
    return _known[found.name]


def _function_named(name: str) -> Callable[..., Any]:
    module, _, of_module = name.partition(":")
    if module not in sys.modules and module in os.environ.get(IMPORTED, "").split(","):
        try:
            import_module(module)
        except ImportError as error:
            raise InputError(f"{IMPORTED} names the module {module}, which cannot be imported ({error})") from None
    if module not in sys.modules:
        raise InputError(
            f"the goal {name} is a function of the module {module}, which is not imported; import it first, or set "
            f"{IMPORTED}={module}"
        )
    found: Callable[..., Any] | None = getattr(sys.modules[module], of_module, None)
    if found is None:
        raise InputError(f"the module {module} has no function {of_module!r}, which is a goal")
    return found


def _stored_name(function: Any, plain: Any) -> str:
    """Return ``module:name``, by which another process finds the function."""
    if not inspect.isfunction(plain):
        raise InputError(f"{function!r} cannot be a goal; give a function that a module defines with def")
    name = f"{plain.__module__}:{plain.__qualname__}"
    why = None
    if plain.__name__ == "<lambda>":
        why = "it is a lambda, which has no name to be stored by"
    elif "<locals>" in plain.__qualname__:
        why = "it is defined inside another function, so no other process finds it"
    elif plain.__module__ == "__main__":
        why = "it is defined in the script or notebook that runs, so no other process finds it"
    elif getattr(sys.modules.get(plain.__module__), plain.__name__, None) is not function:
        why = "its module has something else by this name"
    if why is not None:
        raise InputError(f"the function {name} cannot be a goal: {why}; define it with def at the top of a module")
    return name


def _filler(function: Callable[..., Any], arguments: Callable[[Any], tuple[Any, ...]]) -> Callable[..., None]:
    """Return a function that values lists; numba can compile it if it compiles both arguments."""

    def fill(lists: Any, indptr: Any, indices: Any, n_categories: int, unit: Any, known: Any, out: Any) -> None:
        for row in range(len(lists)):
            both = describe(lists[row], indptr, indices, n_categories, unit, known)
            if len(both[0]) > 0:
                out[row] = function(*arguments(both))

    return fill
