"""The command line, run in this process."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from recprism.cli import main


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def recprism() -> Callable[..., Outcome]:
    """Words of a command line -> its outcome."""

    def call(*words: object) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        argv = ["recprism", *(str(word) for word in words)]
        with (
            patch.object(sys, "argv", argv),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as stopped,
        ):
            main()
        return Outcome(int(stopped.value.code or 0), out.getvalue(), err.getvalue())

    return call


@pytest.fixture(scope="session")
def ok(recprism: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """The same for commands that must succeed."""

    def call(*words: object) -> Outcome:
        found = recprism(*words)
        assert found.code == 0, found.err
        return found

    return call
