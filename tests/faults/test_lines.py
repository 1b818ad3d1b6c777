"""Three hundred command lines from the parser with hostile values; tools/faults/lines.py has the long run."""

from __future__ import annotations

from pathlib import Path

import lines
import pytest

LINES = 300


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines").resolve() / "world"
    lines.make_world(folder)
    return folder


def test_lines_end_well_or_in_one_sentence(world: Path) -> None:
    outcomes = list(lines.fuzz(world, LINES, seed=18))
    assert sorted(it.number for it in outcomes) == list(range(LINES))
    assert [f"{it.line}: {it.faults}" for it in outcomes if it.faults] == []
    assert {it.code for it in outcomes} >= {0, 2}, "some lines work, and some are refused"


def test_every_option_has_a_value_that_may_work() -> None:
    known = {it.name for parameters in lines.grammar().values() for it in parameters if not it.is_flag}
    assert known - set(lines.GOOD) == set()


def test_lines_are_the_same_for_the_same_seed_and_reach_everything() -> None:
    known = lines.grammar()
    made = [lines.make_line(number, 0, known) for number in range(6000)]
    assert made[:50] == [lines.make_line(number, 0, known) for number in range(50)]
    reached = {(line.command, name) for line in made for name in line.given}
    everything = {(command, it.name) for command, parameters in known.items() for it in parameters}
    assert {command for command, _ in everything - reached} <= set(lines.RARELY), "all options of the other commands"


def _faults(code: int, err: str = "", *, changed: tuple[str, ...] = (), read: str = "a", nonsense: str = "") -> str:
    line = lines.Line(("evaluate", "whole"), ("evaluate",), frozenset({"a"}), frozenset(nonsense.split()))
    return "; ".join(lines.judged(line, code, err, list(changed), set(read.split())))


def test_the_harness_notices() -> None:
    assert _faults(0) == _faults(2, "error: no such file\n") == _faults(130) == _faults(1, "gate failed\n") == ""
    assert "traceback" in _faults(-1, "Traceback (most recent call last)\nKeyError: 3\n")
    assert "traceback" in _faults(1, "error: unexpected KeyError: 3; this is a fault of recprism\n")
    assert "without a sentence" in _faults(2)
    assert "more than one line" in _faults(2, "error: a\nb\n")
    assert "warning" in _faults(0, "x.py:3: RuntimeWarning: overflow\n")
    assert "changed whole/delta.safetensors" in _faults(2, "error: no\n", changed=("whole/delta.safetensors",))
    assert "changed" in _faults(1, "error: no\n", changed=("whole/delta.safetensors",))
    assert _faults(0, changed=("new",)) == ""
    assert "ignored: a" in _faults(0, read="b")
    assert "nonsense for a" in _faults(0, nonsense="a")
    twice = lines.Line(("evaluate", "whole"), ("evaluate",), frozenset(), frozenset(), frozenset({"part"}))
    assert list(lines.judged(twice, 0, "", [], {"part"})) == ["one of two values is ignored: part"]
    known = lines.grammar()
    assert any(lines.make_line(number, 0, known).twice for number in range(200))


def test_a_change_of_the_world_is_seen_and_undone(tmp_path: Path) -> None:
    pristine = tmp_path / "pristine"
    (pristine / "run").mkdir(parents=True)
    (pristine / "run" / "config.toml").write_text("a", encoding="utf-8")
    world = lines.World(pristine, tmp_path / "world")
    assert world.changed() == []
    (world.folder / "run" / "config.toml").write_text("b", encoding="utf-8")
    (world.folder / "new").mkdir()
    (world.folder / "new" / "file").write_text("c", encoding="utf-8")
    assert world.changed() == ["new", "new/file", "run/config.toml"]
    world.restore()
    assert world.changed() == []
    assert (world.folder / "run" / "config.toml").read_text(encoding="utf-8") == "a"
    (world.folder / "run" / "config.toml").unlink()
    (world.folder / "run").rmdir()
    assert world.changed() == ["run", "run/config.toml"]
    world.restore()
    assert world.changed() == []


def test_what_a_command_reads_is_noted(tmp_path: Path) -> None:
    """In a process of its own, because the functions of the commands are changed."""
    import subprocess
    import sys

    script = (
        "import lines\nreads = lines.Reads()\n"
        "assert lines.call(('runs', '.', '--json'))[0] == 0\nassert {'folder', 'as_json'} <= reads.names\n"
        "reads.names.clear()\nassert lines.call(('runs', '--help'))[0] == 0\nassert not reads.names\n"
    )
    folder = Path(lines.__file__).parent
    assert subprocess.run([sys.executable, "-c", script], cwd=folder, check=False).returncode == 0
