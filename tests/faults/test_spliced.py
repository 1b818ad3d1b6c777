"""Property-based: a valid file of any kind with any piece of it replaced by anything gives an answer or one sentence.

Hypothesis shrinks what it finds to the smallest splice; tools/faults/fuzz.py has the numbers.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import fuzz
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recprism.errors import RecprismError

KINDS = ("csv", "item table", "gzip", "inter", "json lines", "npz", "safetensors", "config", "run: split.parquet")
PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\x00", b'"', b"\n", b"nan", b"1e308", b"-1", b"9" * 30, b"[" * 200, b'{"a":' * 50]),
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = fuzz.valid_run(tmp_path_factory.mktemp("spliced"))
    return {reader.name: reader for reader in fuzz.readers(run) if reader.name in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(at=st.floats(0, 1), length=st.integers(0, 60), piece=PIECES)
def test_any_splice(kind: str, at: float, length: int, piece: bytes, readers: dict[str, Any], tmp_path: Path) -> None:
    reader = readers[kind]
    valid = reader.files[reader.harmed]
    place = int(at * len(valid))
    for name, content in reader.files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / reader.harmed).write_bytes(valid[:place] + piece + valid[place + length :])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.read(tmp_path)
        except RecprismError as refused:
            assert "\n" not in str(refused).strip()
