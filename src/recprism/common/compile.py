"""Decorators that compile kernels, and the folder for the compiled code.

Numba's own cache watches the file of a compiled function, but not the files of the functions and constants that it
uses. Here the name of the folder contains a hash of all kernel sources, so that an edit of one compiles all of them
again. A kernel source is a file of this package that contains the text ``recprism.common.compile``.

The code is kept in the first writable of these places: NUMBA_CACHE_DIR, the ``__pycache__`` of this package, the user's
cache folder. If there is none, every process compiles in memory.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import caching
from numba.core import config as numba_config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.misc import appdirs

_config: Any = numba_config  # numba's functions have no types
_appdirs: Any = appdirs
_llvm: Any = llvmlite.binding
_types: Any = numba.types
_log = logging.getLogger(__name__)
_PACKAGE = Path(__file__).parents[1]
_PREFIX = "recprism-kernels-"
_LONGEST_WAIT = 120.0  # seconds for another process to compile a kernel; a few are usual
_FOLDERS_KEPT = 4  # an edit makes a new folder; a return to an earlier version finds its folder


def _compile(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    options = {"_nrt": True, **options}  # otherwise, a kernel would inherit it from the kernel that calls it

    def of(function: Callable[..., Any]) -> Any:
        fast: Any = numba.njit(nogil=True, pipeline_class=_Compiler, **options)(function)
        if _config.DISABLE_JIT:
            return fast
        _compile_once_for_all_values(fast)
        if cache_folder() is not None:
            fast._cache = _KernelCache(function)  # the attribute that numba's ``cache=True`` sets
            _end_turn_after_errors(fast)
        return fast

    return of


def _compile_once_for_all_values(fast: Any) -> None:
    """Let calls from other kernels share one version: numba compiles another one for each constant argument."""
    template, plain = fast.get_call_template, _types.unliteral

    def of_types(args: Any, kws: Any) -> Any:
        return template(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    fast.get_call_template = of_types


def _end_turn_after_errors(fast: Any) -> None:
    """Let other processes go on if a kernel does not compile: numba tells the cache about successes alone."""
    compile_types = fast._compiler.compile

    def compile_or_end(*args: Any) -> Any:
        try:
            return compile_types(*args)
        except BaseException:
            fast._cache.end_turn()
            raise

    fast._compiler.compile = compile_or_end


@functools.cache
def cache_folder() -> str | None:
    """Return the folder of the compiled code of these sources, or None if no place is writable."""
    for place in _places():
        folder = Path(place) / (_PREFIX + _hash_of_sources())
        try:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            if any(folder.glob("*.nbi")):  # read-only, and filled, such as an image that runs as another user
                return str(folder)
            _log.debug("compiled kernels are not kept in %s: %s", place, error)
            continue
        if is_new:
            _remove_old_folders(folder)
        return str(folder)
    _log.debug("no folder to keep compiled kernels in: every process compiles its own")
    return None


def _places() -> list[str | Path]:
    chosen = [_config.CACHE_DIR] if _config.CACHE_DIR else []  # from NUMBA_CACHE_DIR
    of_user = Path(_appdirs.AppDirs("recprism", appauthor=False).user_cache_dir)  # begins with ~ if there is no home
    return [*chosen, _PACKAGE / "__pycache__", *([of_user] if of_user.is_absolute() else [])]


def _hash_of_sources() -> str:
    """Hash all kernel sources. The CPU is not included: numba's index in the folder has an entry for each CPU."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {np.__version__}".encode())
    for file in sorted(_PACKAGE.rglob("*.py")):
        source = file.read_bytes()
        if b"recprism.common.compile" in source:
            digest.update(f"\0{file.relative_to(_PACKAGE).as_posix()}\0".encode() + source)
    return digest.hexdigest()[:16]


def _remove_old_folders(new: Path) -> None:
    """Remove all but the latest folders. A process that still uses an older one compiles again what is missing."""
    folders = [path for path in new.parent.glob(_PREFIX + "*") if path != new]
    try:
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:  # another process is removing them
        return
    for folder in folders[_FOLDERS_KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


class _Library(JITCodeLibrary):
    """The code of one kernel, with its own copies of the kernels that it calls.

    LLVM optimises the copies of a kernel in each caller, and may order the sums of loose kernels otherwise. Numba gives
    the copies one name, and a process runs the copy that it met first: one that compiles another one than one that
    reads compiled code. Here, the names of copies do not leave the code of their caller.
    """

    def _finalize_final_module(self) -> None:
        for_callers: Any = self._final_module.clone()
        _link(self._final_module, _llvm.Linkage.linkonce_odr, "internal")
        super()._finalize_final_module()  # type: ignore[no-untyped-call]
        _link(for_callers, _llvm.Linkage.external, "linkonce_odr")
        self._shared_module = for_callers


def _link(module: Any, before: Any, now: str) -> None:
    for function in module.functions:
        if not function.is_declaration and function.linkage == before:
            function.linkage = now


class _InnerLibrary(_Library):
    """The code of a kernel that only other kernels call: they optimise their copies, and only these run."""

    @property
    def codegen(self) -> Any:
        return self  # numba asks it to write the environment into code that runs

    def set_env(self, name: str, env: Any) -> None:
        pass

    def serialize_using_object_code(self) -> Any:
        return super().serialize_using_bitcode()  # type: ignore[no-untyped-call]

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        _link(self._final_module, _llvm.Linkage.external, "linkonce_odr")
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._shared_module, self._finalized = self._final_module, True


class _Compiler(Compiler):
    """Numba's compiler, with code in a ``_Library``."""

    def _compile_core(self) -> Any:
        state: Any = self.state
        if state.library is None:
            new: Any = _InnerLibrary if state.flags.no_cpython_wrapper else _Library
            state.library = new(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return super()._compile_core()  # type: ignore[no-untyped-call]


class _Locator(caching._CacheLocator):
    """Gives numba's cache the folder, and a distinct file name for each function."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # numba's warnings name it
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return cache_folder() or os.devnull

    def get_source_stamp(self) -> str:
        return ""  # the folder's name has it

    def get_disambiguator(self) -> str:
        return f"{'.'.join(Path(self._py_file).parts[-3:-1])}-{self._line}"


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: Any = (_Locator,)


class _KernelCache(caching.FunctionCache):
    """A cache whose read and write errors leave a kernel uncached, and do not stop it.

    Of several processes that need a kernel at the same time, one compiles it and the others wait for its code.
    """

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._turn: IO[str] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = self._read(sig, target_context)
        if found is None:
            self._take_turn()
            found = self._read(sig, target_context)
            if found is not None:
                self.end_turn()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _log.debug("compiled code is not kept in %s: %s", self.cache_path, error)
        finally:
            self.end_turn()

    def _read(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError as error:
            _log.debug("compiled code is not read from %s: %s", self.cache_path, error)
            return None

    def _take_turn(self) -> None:
        """Wait until no other process compiles this kernel; where files cannot be locked, compile at once.

        A kernel locks before the kernels that it calls, so two processes cannot wait for each other.
        """
        self.end_turn()
        try:
            import fcntl

            lock = Path(self.cache_path, f"{self._impl.filename_base}.lock")
            self._turn = lock.open("w", encoding="utf-8")
        except (ImportError, OSError):
            return
        patience = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < patience:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                return
            else:
                return

    def end_turn(self) -> None:
        """Let the next process compile; a child may have the file open, too, so closing it is not enough."""
        if self._turn is not None:
            with contextlib.suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(self._turn, fcntl.LOCK_UN)
            self._turn.close()
            self._turn = None


compiled = _compile()
# For kernels that only other kernels call: without code that runs, or reads Python objects. A test calls
# ``numba.njit(kernel.py_func)``.
compiled_inside = _compile(no_cpython_wrapper=True, no_cfunc_wrapper=True)
# For kernels that make and return no arrays: references to arrays are not counted. Each count is an atomic operation,
# kernels pass tuples of two dozen arrays, and threads that count the same array wait for each other.
compiled_uncounted = _compile(_nrt=False)
compiled_inside_uncounted = _compile(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
# For parts of inner loops with many array arguments: a call would count references to all of them.
compiled_in_place = _compile(inline="always")
# For code without NaN whose sums may be reordered: loops over vectors then use vector registers.
compiled_loosely = _compile(fastmath={"nnan", "nsz", "reassoc", "contract"})
# Division by zero gives inf or NaN, as in numpy, so that divisions in loops need no branch.
compiled_unchecked = _compile(error_model="numpy")
