"""Two thousand harmed files, a few dozen for every reader; tools/faults/fuzz.py has the long run."""

from __future__ import annotations

import random
from pathlib import Path

import fuzz

CASES = 2000


def test_no_reader_falls_over(tmp_path: Path) -> None:
    seen, faults = fuzz.fuzz(fuzz.valid_run(tmp_path), CASES)
    assert sum(seen.values()) == CASES
    assert min(seen.values()) >= 20, "every reader is tried"
    assert faults == []


def test_the_harness_notices(tmp_path: Path) -> None:
    """A reader that falls over, one that never ends and one that talks too much are found."""

    def falls(path: Path) -> None:
        raise KeyError("oops")

    def hangs(path: Path) -> None:
        while True:
            pass

    def talks(path: Path) -> None:
        from recprism.errors import InputError

        raise InputError("one\ntwo")

    import signal

    before = signal.signal(signal.SIGPROF, fuzz._alarm)
    try:
        for read, expected in ((falls, "KeyError"), (hangs, "still reading"), (talks, "more than one line")):
            found = fuzz.one_case(fuzz.Reader("made", {"a": b"abc"}, "a", read), 0, tmp_path)
            assert found is not None
            assert expected in found.what
    finally:
        signal.signal(signal.SIGPROF, before)


def test_most_cases_are_harmed_files_and_no_noise() -> None:
    content = b"user_id,item_id\n" + b"1,2\n" * 200
    luck = random.Random(0)
    harmed = [fuzz.harm(content, luck) for _ in range(1000)]
    assert sum(b"1,2\n1,2" in it for it in harmed) > 500
    assert sum(it != content for it in harmed) > 950
