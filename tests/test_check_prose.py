"""The check of the prose: what counts as a sentence, a word and an idiom, in every kind of file that it reads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "check_prose.py"
LONG = "The command " + "reads one more file and then " * 7 + "stops."
SHORT = "The command reads the file. It then prints one line per user."

PHRASES = (
    "The graph is built anew.",
    "Each sink is told about the event.",
    "The default applies unless told otherwise.",
    "The result hangs on the seed.",
    "The result hung on the seed.",
    "A search with others is not gone on with.",
    "The run goes on after an error.",
    "The solver must go on.",
    "The vectors were made as of then.",
    "The test part has no say in this.",
    "All users have a say in the choice.",
    "Every claim stands beside its control.",
    "A machine that swaps tells nobody why.",
    "This is somebody's own function.",
    "The item is shown to anybody.",
    "The rule is the same for everybody.",
    "The lock belongs to whoever came first.",
    "Leave the option `--held-out` away.",
    "Some items are strangers to the run.",
    "The worker was asked to look, and is no more.",
    "The table shows what became of each place.",
    "The value stands in the last column.",
    "The value stood in the last column.",
    "Row 3 has no id; mend the file.",
    "The worker waits in vain.",
    "The worker waits for want of memory.",
    "The entry is of no meaning here.",
    "The times are equal as far as the noise lets see.",
    "The review speaks of the battery.",
    "An item that is dearer than the budget is dropped.",
    "The least features do next to nothing.",
    "The vectors give back all lists.",
    "It is judged on the very users it was made for.",
    "The explanation is held against a control.",
    "The figures come from a made world.",
)

FINE = (
    "Two texts can be told apart by their digest.",
    "The mean stands for all users.",
    "Base scores stand in for accuracy.",
    "The list ends if there are no more items.",
    "There is no more.",
    "Besides NDCG, the table has recall.",
    "The settings depend on the data, e.g. on its size (see Smith et al. 2020).",
    "Amending the file is not supported.",
)


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_prose"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


prose = _script()


def _findings(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return [(finding.line, finding.message) for finding in prose.check_file(path)]


def _texts(text: str) -> list[str]:
    return [sentence for _, sentence in prose.sentences(prose.plain_text(text))]


@pytest.mark.parametrize("phrase", PHRASES)
def test_each_idiom_is_found(phrase: str, tmp_path: Path) -> None:
    found = _findings(tmp_path, "page.md", f"{SHORT}\n\n{phrase}\n")
    assert found and {line for line, _ in found} == {3}
    assert all("write instead" in message for _, message in found)


def test_every_pattern_has_an_example() -> None:
    unused = [pattern for pattern, _ in prose._COMPILED_IDIOMS if not any(map(pattern.search, PHRASES))]
    assert not unused


@pytest.mark.parametrize("phrase", FINE)
def test_plain_english_passes(phrase: str, tmp_path: Path) -> None:
    assert not _findings(tmp_path, "page.md", phrase)


def test_an_idiom_may_be_broken_over_two_lines(tmp_path: Path) -> None:
    assert [line for line, _ in _findings(tmp_path, "page.md", f"{SHORT}\nThe result hangs\non the seed.")] == [2]


def test_code_is_not_prose(tmp_path: Path) -> None:
    page = f"{SHORT}\n\n```console\n$ recprism anew\n{LONG}\n```\n\nUse `anew beside nobody`.\n\n<!-- nobody -->\n"
    assert not _findings(tmp_path, "page.md", page)


def test_a_percent_sign_has_a_space_in_running_text(tmp_path: Path) -> None:
    page = "The loss is 5%, or 2.5 %.\n\n`--budget 5%`\n\n```console\n$ a --budget 5%\n```\n\n| loss |\n|---|\n| 5% |\n"
    ((line, message),) = _findings(tmp_path, "page.md", page)
    assert line == 1 and message.startswith('"5%": write 5 %')


def test_forty_words_pass_and_forty_one_do_not(tmp_path: Path) -> None:
    assert not _findings(tmp_path, "page.md", " ".join(["word"] * 40) + ".")
    ((line, message),) = _findings(tmp_path, "page.md", " ".join(["word"] * 41) + ".")
    assert line == 1 and message.startswith("sentence of 41 words")


@pytest.mark.parametrize(
    "text, count",
    [
        ("The share is 0.95, i.e. 95 %. The rest is empty.", 2),
        ("See Smith et al. 2020, e.g. Fig. 3. It is old.", 2),
        ("Is it fast? Yes! It is.", 3),
        ("**Versions.** A version is a digest.", 2),
        ("The file `a. b. c` is read. recprism then stops.", 2),
        ("It ends (in most cases.) Then it starts.", 2),
        ("Go to https://example.org/a.b?c=d. Then read.", 2),
        ("The split is 8:1:1. The seed is 0.", 2),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(_texts(text)) == count


@pytest.mark.parametrize(
    "text, count",
    [
        ("a `code span of words` counts once", 4),
        ("see [the page of figures](docs/a_b.md) - now", 6),
        ("about 95 % of users → good", 5),
        ("https://example.org/a/b?c=d is one word", 4),
        ("a well-known and/or case", 4),
        ("with $a + b = c$ added", 3),
    ],
)
def test_words(text: str, count: int) -> None:
    assert prose.word_count(prose.plain_text(text)) == count


def test_headings_list_items_and_cells_are_texts_of_their_own(tmp_path: Path) -> None:
    part = "a few words that do not end with a stop and are long enough to add up"
    page = f"# {part}\n{part}\n\n- {part}\n- {part}\n1. {part}\n\n| {part} | {part} |\n|---|---|\n| {part} | {part} |\n"
    assert not _findings(tmp_path, "page.md", page)


def test_a_long_cell_is_found(tmp_path: Path) -> None:
    assert [line for line, _ in _findings(tmp_path, "page.md", f"| a | b |\n|---|---|\n| 1 | {LONG} |\n")] == [3]


def test_python_is_read(tmp_path: Path) -> None:
    module = f'''"""{LONG}"""
# {LONG}
# A comment
x = 1  # nobody
def f(a):
    """Fine.

    Args:
        a: {LONG}
        b: It stands beside a.
    """
    raise ValueError(f"the file {{a}} has no rows; mend it")
'''
    assert [line for line, _ in _findings(tmp_path, "module.py", module)] == [1, 2, 4, 9, 10, 12]


def test_entries_of_a_docstring_are_separate(tmp_path: Path) -> None:
    words = " ".join(["word"] * 25)
    entries = f"first: {words}\n    second, third: {words}; fourth: {words}\n"
    assert not _findings(tmp_path, "house.py", f'"""A summary.\n\n    {entries}"""\n')
    assert not _findings(tmp_path, "google.py", f'"""A summary.\n\n    Args:\n    {entries}"""\n')


def test_doctests_tables_and_word_lists_are_not_sentences(tmp_path: Path) -> None:
    doctest = f">>> nobody()\n{LONG}\n\nconfig.toml   {'word ' * 30}\nevents.jsonl  {'word ' * 30}\n"
    words = "mother father somebody nobody user owner"
    assert not _findings(tmp_path, "module.py", f'"""A summary.\n\n{doctest}"""\nWORDS = "{words}"\n')


def test_templates_and_scripts_are_read(tmp_path: Path) -> None:
    page = "<p>{{ a }} is <b>built</b> anew.</p>\n<script>// nobody</script>\n<p>It\nhangs on <code>beside</code>.</p>"
    assert [line for line, _ in _findings(tmp_path, "page.html.j2", page)] == [1, 4]
    comment = "// A comment says that nobody\n// reads this."
    script = f'const a = "https://nobody/b";\n{comment}\nsay(`built anew for ${{a}} and b`);'
    assert [line for line, _ in _findings(tmp_path, "page.js", script)] == [2, 4]


def test_the_command_prints_file_and_line_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sub").mkdir()
    page = tmp_path / "sub" / "page.md"
    page.write_text(f"{SHORT}\n\n{LONG}\n", encoding="utf-8")
    (tmp_path / "vega.min.js").write_text("// nobody", encoding="utf-8")
    assert prose.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{page}:3: sentence of") and out.count("\n") == 1
    assert prose.main([str(tmp_path), "--count"]) == 1
    assert "total: 1 long sentences, 0 idioms" in capsys.readouterr().out
    page.write_text(SHORT, encoding="utf-8")
    assert prose.main([str(tmp_path)]) == 0
    assert prose.main([str(tmp_path / "missing")]) == 2
