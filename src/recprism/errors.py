"""Errors that speak to the person who caused them.

A message is one sentence that says what is wrong, where (file, row, column, shape), and what to do about it. The
command line prints that sentence and exits with the error's ``exit_code``.
"""

from __future__ import annotations


class RecprismError(Exception):
    """Something failed that the user can understand: the command line prints the message and no traceback."""

    exit_code = 1


class InputError(RecprismError, ValueError):
    """The input (a file, an array, an option) is not what is needed."""

    exit_code = 2


class StorageError(RecprismError):
    """A disk does not take or give what is needed: it is full, or permissions are missing."""


class BusyError(RecprismError):
    """Another process is writing into the run."""


class TooLargeError(RecprismError, MemoryError):
    """What was asked for does not fit into memory; the message says what would."""

    exit_code = 2


class MissingDependencyError(RecprismError, ImportError):
    """An optional package is needed for what was asked."""

    exit_code = 2
