"""Files of a run edited and deleted, read by two commands; truncate.py has every command and every edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from truncate import READERS, Reading

COMMANDS = ("check", "evaluate")


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return Reading(tmp_path_factory.mktemp("cut").resolve(), COMMANDS)


@pytest.mark.parametrize("cut", ["half", "all but 1", "deleted", "one byte changed"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_was_edited_is_named_or_does_not_matter(reading: Reading, command: str, cut: str) -> None:
    outcomes = [reading.trial("whole", file, cut, command) for file in reading.files("whole")]
    assert [it for it in outcomes if it.how == "bad"] == []
    refused = {it.file for it in outcomes if it.how == "refused"}
    assert {"factors.safetensors", "factors.json", "split.parquet", "delta.safetensors", "result.json"} <= refused


def test_another_answer_is_seen(reading: Reading) -> None:
    answer = reading.expected["whole", "check"]
    assert reading._judged(("whole", "check"), "x", *answer)[0] == "the same"
    assert reading._judged(("whole", "check"), "x", 0, answer[1] + "1", "")[0] == "bad"
    assert reading._judged(("whole", "check"), "x", 2, "", "error: x: cut short\n")[0] == "refused"
    assert reading._judged(("whole", "check"), "x", 2, "", "error: something\n")[0] == "bad"
    assert reading._judged(("whole", "check"), "x", -1, "", "error: x: KeyError\n")[0] == "bad"
    assert set(COMMANDS) <= set(READERS)


def test_everything_that_a_run_can_hold_is_there(reading: Reading) -> None:
    from recprism.runs import run

    words = {line.split()[0] for line in (run.__doc__ or "").splitlines() if line}
    listed = {word for word in words if "." in word and not word.startswith(".")}  # hidden: work that goes on
    held = {Path(name).name for name in reading.files("whole")} | {
        "delta.safetensors",
        "cmb.json",
        "audit.json",
        "clusters.parquet",
    }
    missing = {name for name in listed if name.replace("GOAL", "subtopic_coverage") not in held and "*" not in name}
    assert missing == set()
    assert any("checkpoint" in name for name in reading.files("searching"))
    assert any("checkpoint" in name for name in reading.files("training"))
    assert Path(reading.folder).is_dir()
