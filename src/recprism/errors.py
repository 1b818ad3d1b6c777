"""Errors whose messages are written for users.

A message says what is wrong, where (file, row, column, shape), and what to do. The command line prints it and exits
with the ``exit_code`` of the error.

Stability: stable.
"""

from __future__ import annotations


class RecprismError(Exception):
    """Base class of all errors of this package; the command line prints the message without a traceback."""

    exit_code = 1


class InputError(RecprismError, ValueError):
    """The input (a file, an array, an option) is not valid."""

    exit_code = 2


class ConstraintError(RecprismError):
    """Lists cannot keep a constraint that they must keep.

    Stability: provisional.
    """


class StorageError(RecprismError):
    """A file cannot be read or written: the disk is full, or permissions are missing."""


class BusyError(RecprismError):
    """Another process is writing to the run."""


class TooLargeError(RecprismError, MemoryError):
    """A request does not fit into memory; the message says what would."""

    exit_code = 2


class MissingDependencyError(RecprismError, ImportError):
    """A request needs an optional package that is not installed."""

    exit_code = 2
