"""config.toml: users may edit it, and a cut file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from recprism.errors import InputError
from recprism.runs.config import RunConfig, read_config, write_config


def test_a_file_may_be_edited_and_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write_config(path, RunConfig())
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + "\n# a word of mine\n", encoding="utf-8")
    assert read_config(path) == RunConfig()
    for length in (0, 1, len(whole) // 2, len(whole) - 2):
        path.write_text(whole[:length], encoding="utf-8")
        with pytest.raises(InputError, match=r"config\.toml: cut short"):
            read_config(path)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "made by recprism 0.1,"),
        ("format = 3\n", "made by recprism 0.2,"),
        ("format = 5\n", "made by another version"),
    ],
)
def test_runs_of_other_versions_are_refused_in_one_sentence(tmp_path: Path, written: str, said: str) -> None:
    path = tmp_path / "config.toml"
    write_config(path, RunConfig())
    text = path.read_text(encoding="utf-8")
    assert "format = 4\n" in text
    path.write_text(text.replace("format = 4\n", written), encoding="utf-8")
    with pytest.raises(InputError, match=said) as refused:
        read_config(path)
    assert "make the run again with `recprism train`" in str(refused.value)
