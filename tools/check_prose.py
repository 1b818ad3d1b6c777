"""Check the prose of the documentation and the source: python tools/check_prose.py [FILE OR FOLDER ...]

Three checks: no sentence has more than 40 words, none of the phrases in ``IDIOMS`` occurs, and the running text of
Markdown has a space in front of every percent sign (5 %). Command lines keep 5%, as code, and so do recorded tables.
Each finding is one line,
``file:line: message``. The exit code is 1 if there are findings, and 2 if a path does not exist.

Without arguments, the script checks the pages in the root of the repository, docs/, benchmarks/*.md and src/.

What counts as text:

- Markdown: everything outside code blocks. A heading, a list item and a table cell are separate texts.
- Python: docstrings, comments, and string literals of at least four words. Doctests are skipped.
- HTML and Jinja templates: text between tags. JavaScript: comments and string literals of at least four words.

A code span, a formula, a URL and a formatted value count as one word each.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
DEFAULT_PATHS = (*PAGES, "benchmarks/RESULTS.md", "benchmarks/results_text.md", "docs", "src")
MOST_WORDS = 40
FEWEST_WORDS_OF_A_MESSAGE = 4
SKIPPED_FOLDERS = {"_build", "__pycache__", ".venv", "node_modules"}
SKIPPED_FILES = {"docs/errors.md"}  # generated from the messages of the source, which are checked there

# Pattern (a space matches any white space) and what to write instead.
IDIOMS = (
    (r"anew", "again"),
    (r"(?:is|are|was|were|be|been|being) told(?! apart)", "receives, gets, is notified"),
    (r"(?:unless|if|when|as) told", "by default; if set"),
    (r"hang(?:s|ing)? (?:on|upon)|hung on", "depends on"),
    (r"(?:gone|go|goes|going|went) on with", "resume, continue with"),
    (r"(?:goes|went) on|(?:to|can|must|will|not|and) go on", "continues"),
    (r"as of then", "at that time"),
    (r"ha(?:s|ve|d|ving) no say", "is not used"),
    (r"(?:a|its|their) say in", "affects"),
    (r"beside(?! the point)", "next to, with"),
    (r"nobody(?:'s)?", "no user, no one; or name who"),
    (r"somebody(?:'s)?", "another process, a caller; or name who"),
    (r"anybody(?:'s)?", "any user, any caller; or name who"),
    (r"everybody(?:'s)?", "all users, everyone"),
    (r"whoever", "the user that, the caller that"),
    (r"(?:leave|leaves|leaving|left) (?:\S+ ){1,4}away", "omit"),
    (r"strangers?", "unknown to the run"),
    (r"(?<!there.)(?:is|are|was|were) no more(?=[.,;:)]|$)", "no longer exists, died"),
    (r"what became of", "what happened to; or name it: the change, the state"),
    (r"stands? (?:in|at|on|above|below|under|there|between|alone|still|both)(?! for)", "is, occurs"),
    (r"stood (?:in|at|on|above|below|under|there)(?! for)", "was, occurred"),
    (r"mend(?:s|ed|ing)?", "fix, repair"),
    (r"in vain", "without success"),
    (r"for want of", "because there is no"),
    (r"of no meaning", "meaningless, ignored"),
    (r"lets? see", "shows, within"),
    (r"speaks? (?:for|of)", "supports, is about, mentions"),
    (r"dear(?:er|est)?", "expensive, costs more"),
    (r"next to nothing", "almost nothing"),
    (r"(?:give|gives|gave|given|giving) back", "reproduces, returns"),
    (r"the very (?:users|items|same)", "the same"),
    (r"held against", "compared with"),
    (r"made world|made data|made items|made users", "synthetic"),
)

# A string literal without any of these is a list of words, a pattern or code, and not a message.
FUNCTION_WORDS = {
    "a",
    "an",
    "and",
    "are",
    "by",
    "for",
    "from",
    "has",
    "is",
    "it",
    "not",
    "or",
    "that",
    "the",
    "to",
    "with",
}
ABBREVIATIONS = {"e.g.", "i.e.", "al.", "cf.", "vs.", "fig.", "eq.", "sec.", "no.", "approx.", "resp.", "p.", "pp."}
SECTIONS = re.compile(r"\s*(?:Args|Attributes|Examples?|Notes?|Raises|Returns|References|See Also|Yields):\s*$", re.I)
COLUMNS = re.compile(r"\S {2,}\S")  # a row of a plain-text table
ENTRY = re.compile(r"\s*\*{0,2}\w+(?: \([^)]*\))?(?:, \*{0,2}\w+(?: \([^)]*\))?)*: \S")
SEVERAL_ENTRIES = re.compile(r"; (?=\w+(?:, \w+)*: )")
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)]) +")
FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})")
END_OF_SENTENCE = re.compile(r"[.!?]+[\"')\]”’]*(?=\s|$)")
INLINE_TAG = re.compile(r"</?(?:a|abbr|b|code|em|i|kbd|small|span|strong|sub|sup|u|var)\b[^>]*>", re.I)
JAVASCRIPT = re.compile(
    r"(?P<block>/\*.*?\*/)|(?P<line>(?<![:\\\"'`])//[^\n]*)"
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)",
    re.S,
)


@dataclass(frozen=True)
class Passage:
    """Running text: one paragraph, list item, table cell, docstring entry, comment or message.

    Attributes:
        line: The line of its first character, from 1.
        text: Line breaks are those of the file, so that a position gives a line.
    """

    line: int
    text: str

    def line_at(self, position: int) -> int:
        return self.line + self.text.count("\n", 0, position)


@dataclass(frozen=True)
class Finding:
    """One violation: the file, the line and what to change."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def main(arguments: list[str] | None = None) -> int:
    """Print all findings; returns the exit code."""
    parser = argparse.ArgumentParser(description="Check sentence length and wording.")
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; by default the whole repository")
    parser.add_argument("--count", action="store_true", help="print only the number of findings per folder")
    options = parser.parse_args(arguments)
    paths = options.paths or [ROOT / name for name in DEFAULT_PATHS]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"no such file or folder: {', '.join(missing)}", file=sys.stderr)
        return 2
    found = [finding for path in files_in(paths) for finding in check_file(path)]
    for line in _counts(found) if options.count else found:
        print(line)
    return int(bool(found))


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """All files to check: those given by name, and those in folders that have a reader."""
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if _is_checked(file))
        else:
            yield path


def check_file(path: Path) -> list[Finding]:
    """All findings in one file, ordered by line."""
    name = shown_name(path)
    text = path.read_text(encoding="utf-8")
    reader = READERS.get(path.suffix, markdown_passages)
    found = [Finding(name, line, message) for passage in reader(text) for line, message in check_passage(passage)]
    if reader is markdown_passages:
        found += [Finding(name, line, message) for line, message in check_percent(text)]
    return sorted(found, key=lambda finding: finding.line)


def check_passage(passage: Passage) -> Iterator[tuple[int, str]]:
    """Line and message of each long sentence and of each idiom."""
    plain = Passage(passage.line, plain_text(passage.text))
    for start, sentence in sentences(plain.text):
        count = word_count(sentence)
        if count > MOST_WORDS:
            yield plain.line_at(start), f"sentence of {count} words (at most {MOST_WORDS}): {_beginning(sentence)}"
    for pattern, suggestion in _COMPILED_IDIOMS:
        for match in pattern.finditer(plain.text):
            words = " ".join(match.group().split())
            yield plain.line_at(match.start()), f'"{words}": write instead: {suggestion}'


def check_percent(text: str) -> Iterator[tuple[int, str]]:
    """Line and message of each percent sign without a space in front, outside code and tables."""
    running = (line if not line.lstrip().startswith("|") else "" for _, line in _outside_fences(text))
    plain = Passage(1, plain_text("\n".join(running)))
    for match in re.finditer(r"[\d.,]*\d%", plain.text):
        message = f'"{match.group()}": write {match.group()[:-1]} %, or a code span for a command line'
        yield plain.line_at(match.start()), message


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Position and text of each sentence; abbreviations, initials and decimals do not end one."""
    start = 0
    for match in END_OF_SENTENCE.finditer(text):
        if not _is_abbreviation(text[start : match.end()]):
            yield from _stripped(text, start, match.end())
            start = match.end()
    yield from _stripped(text, start, len(text))


def word_count(sentence: str) -> int:
    """The number of words; signs alone (a dash, a percent sign, an arrow) are not words."""
    return sum(any(character.isalnum() for character in word) for word in sentence.split())


def is_message(text: str) -> bool:
    """Whether a string literal reads like a sentence."""
    return word_count(text) >= FEWEST_WORDS_OF_A_MESSAGE and bool(FUNCTION_WORDS & set(text.lower().split()))


def plain_text(text: str) -> str:
    """Without markup: code spans and formulas become one word, links their text; line breaks stay."""
    text = re.sub(r"<!--.*?-->", _breaks, text, flags=re.S)
    text = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda match: "code" + _breaks(match), text, flags=re.S)
    text = re.sub(r"\$[^$\n]+\$", "formula", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)", r"\1", text)
    text = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    text = re.sub(r"https?://\S*[^\s.,;:!?)]", "url", text)
    return re.sub(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)", "", text)


def markdown_passages(text: str) -> Iterator[Passage]:
    """Paragraphs, headings, list items and table cells, outside code blocks and comments."""
    text = re.sub(r"<!--.*?-->", _breaks, text, flags=re.S)
    paragraph: list[tuple[int, str]] = []
    for number, line in _outside_fences(text):
        content = re.sub(r"^\s*(?:>\s?)+", "", line)
        is_table, is_heading = content.lstrip().startswith("|"), content.startswith("#")
        if not content.strip() or is_table or is_heading or LIST_ITEM.match(content):
            yield from _joined(paragraph)
            paragraph = []
        if is_table:
            yield from (Passage(number, cell.strip()) for cell in _cells(content))
        elif is_heading:
            yield Passage(number, content.lstrip("# "))
        elif content.strip():
            paragraph.append((number, LIST_ITEM.sub("", content, count=1)))
    yield from _joined(paragraph)


def python_passages(text: str) -> Iterator[Passage]:
    """Docstrings, comments and messages of a module."""
    yield from _comments(text)
    strings = _Strings()
    strings.visit(ast.parse(text))
    for line, docstring in strings.docstrings:
        yield from docstring_passages(line, docstring)
    for line, message in strings.messages:
        if is_message(message):
            yield from (Passage(line, part) for part in re.split(r"\n\s*\n", message))


def docstring_passages(first: int, docstring: str) -> Iterator[Passage]:
    """Paragraphs, list items, and entries ``name: text``; doctests are skipped."""
    paragraph: list[tuple[int, str]] = []
    in_doctest = entries_may_follow = False
    for number, line in enumerate(docstring.split("\n"), first):
        is_blank = not line.strip()
        in_doctest = not is_blank and (in_doctest or line.lstrip().startswith(">>>"))
        is_entry = bool(ENTRY.match(line)) and (entries_may_follow or not paragraph)
        starts = is_entry or SECTIONS.match(line) or LIST_ITEM.match(line) or COLUMNS.search(line)
        if is_blank or in_doctest or starts:
            yield from _joined(paragraph)
            paragraph = []
        if not is_blank and not in_doctest and not SECTIONS.match(line):
            paragraph.append((number, LIST_ITEM.sub("", line, count=1)))
        entries_may_follow = not is_blank and (is_entry or entries_may_follow or bool(SECTIONS.match(line)))
    yield from _joined(paragraph)


def template_passages(text: str) -> Iterator[Passage]:
    """Text between block-level tags; a Jinja expression is one word."""
    for pattern in (r"\{#.*?#\}", r"<!--.*?-->", r"<(script|style)\b.*?</\1>"):
        text = re.sub(pattern, _breaks, text, flags=re.S | re.I)
    text = re.sub(r"\{\{.*?\}\}", lambda match: "value" + _breaks(match), text, flags=re.S)
    text = re.sub(r"\{%.*?%\}", _breaks, text, flags=re.S)
    text = re.sub(r"<code\b.*?</code>", lambda match: "code" + _breaks(match), text, flags=re.S | re.I)
    text = INLINE_TAG.sub("", text)
    text = re.sub(r"<[^>]*>", lambda match: "\0" + _breaks(match), text, flags=re.S)
    line = 1
    for part in text.split("\0"):
        yield from _stripped_passage(line, part)
        line += part.count("\n")


def javascript_passages(text: str) -> Iterator[Passage]:
    """Comments, and string literals that read like messages."""
    comments: list[tuple[int, str]] = []
    for match in JAVASCRIPT.finditer(text):
        line = 1 + text.count("\n", 0, match.start())
        if match["line"] is not None:
            if comments and comments[-1][0] != line - 1:
                yield from _joined(comments)
                comments = []
            comments.append((line, match["line"].lstrip("/ ")))
        elif match["block"] is not None:
            yield from _stripped_passage(line, match["block"].strip("/*"))
        else:
            message = re.sub(r"\$\{[^}]*\}", "value", match["text"][1:-1])
            if is_message(message):
                yield from template_passages_at(line, message)
    yield from _joined(comments)


def template_passages_at(line: int, text: str) -> Iterator[Passage]:
    """The same for HTML that begins at a line."""
    yield from (Passage(line + passage.line - 1, passage.text) for passage in template_passages(text))


class _Strings(ast.NodeVisitor):
    """Collects docstrings (any string that is a statement) and other string literals, with their lines."""

    def __init__(self) -> None:
        self.docstrings: list[tuple[int, str]] = []
        self.messages: list[tuple[int, str]] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self.docstrings.append((node.lineno, node.value.value))
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        is_word_list = isinstance(node.func, ast.Attribute) and node.func.attr in {"split", "splitlines"}
        if not is_word_list:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.messages.append((node.lineno, node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        parts = [str(part.value) if isinstance(part, ast.Constant) else "value" for part in node.values]
        self.messages.append((node.lineno, "".join(parts)))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)


def _comments(text: str) -> Iterator[Passage]:
    """Comments; those on consecutive lines of their own are one text."""
    lines: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(?:noqa|type:|!|pragma)", token.string):
            continue
        number = token.start[0]
        is_alone = not token.line[: token.start[1]].strip()
        if not is_alone or (lines and lines[-1][0] != number - 1):
            yield from _joined(lines)
            lines = []
        content = token.string.lstrip("#: ")
        if is_alone:
            lines.append((number, content))
        else:
            yield Passage(number, content)
    yield from _joined(lines)


def _outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines; those of a code block, and its fences, are empty."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and line.strip() == mark[1]
            fence = "" if closes else fence
            yield number, ""
        else:
            fence = mark[1] if mark else ""
            yield number, "" if mark else line


def _cells(row: str) -> list[str]:
    """The cells of a table row; a bar in a code span or after a backslash does not end a cell."""
    row = re.sub(r"`[^`]*`", "code", row).replace("\\|", "/")
    return [part for cell in row.strip().strip("|").split("|") for part in re.split(r"<br */?>", cell)]


def _joined(lines: list[tuple[int, str]]) -> Iterator[Passage]:
    if lines:
        first = lines[0][0]
        yield from _split_entries(Passage(first, "\n".join(line for _, line in lines)))


def _split_entries(passage: Passage) -> Iterator[Passage]:
    """ "before: one thing; after: another" is two entries."""
    start = 0
    for match in SEVERAL_ENTRIES.finditer(passage.text):
        yield Passage(passage.line_at(start), passage.text[start : match.start()])
        start = match.end()
    yield Passage(passage.line_at(start), passage.text[start:])


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    sentence = text[start:end]
    if sentence.strip():
        yield start + len(sentence) - len(sentence.lstrip()), sentence.strip()


def _stripped_passage(line: int, text: str) -> Iterator[Passage]:
    for start, part in _stripped(text, 0, len(text)):
        yield Passage(line + text.count("\n", 0, start), part)


def _is_abbreviation(sentence: str) -> bool:
    words = sentence.split()
    last = words[-1].strip("\"'([)]").lower() if words else ""
    return last in ABBREVIATIONS or bool(re.fullmatch(r"[a-z]\.", last))


def _breaks(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _beginning(sentence: str) -> str:
    return " ".join(sentence.split()[:8]) + " ..."


def _is_checked(path: Path) -> bool:
    is_skipped = bool(SKIPPED_FOLDERS & set(path.parts)) or shown_name(path) in SKIPPED_FILES
    return path.is_file() and path.suffix in READERS and not is_skipped and ".min." not in path.name


def shown_name(path: Path) -> str:
    """The path relative to the repository, where it is inside."""
    absolute = path.resolve()
    return absolute.relative_to(ROOT).as_posix() if absolute.is_relative_to(ROOT) else str(path)


def _counts(found: list[Finding]) -> list[str]:
    counts: dict[str, list[int]] = {}
    for finding in found:
        row = counts.setdefault(str(Path(finding.path).parent), [0, 0])
        row["sentence of" not in finding.message] += 1
    rows = [f"{folder}: {row[0]} long sentences, {row[1]} idioms" for folder, row in sorted(counts.items())]
    totals = [sum(row[place] for row in counts.values()) for place in (0, 1)]
    return [*rows, f"total: {totals[0]} long sentences, {totals[1]} idioms"]


def _compiled(pattern: str) -> re.Pattern[str]:
    white_space = r"\s+"
    return re.compile(rf"\b(?:{pattern.replace(' ', white_space)})(?!\w)", re.I)


_COMPILED_IDIOMS = tuple((_compiled(pattern), suggestion) for pattern, suggestion in IDIOMS)
READERS: dict[str, Callable[[str], Iterator[Passage]]] = {
    ".md": markdown_passages,
    ".py": python_passages,
    ".j2": template_passages,
    ".html": template_passages,
    ".js": javascript_passages,
}

if __name__ == "__main__":
    sys.exit(main())
