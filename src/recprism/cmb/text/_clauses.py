"""Splits a text into clauses: the words between two commas are usually one statement about one thing."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from recprism.cmb.text._packages import parser, singular

CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\b(ca)n['’]?t\b", r"\1n not"),
        (r"\bwon['’]t\b", "will not"),
        (r"n['’]t\b", " not"),
        (r"['’]ve\b", " have"),
        (r"['’]re\b", " are"),
        (r"['’]ll\b", " will"),
        (r"['’]m\b", " am"),
        (r"['’]d\b", " would"),
        (r"['’]s\b", " 's"),
    )
)
CLAUSE_ENDS = frozenset({",", ";", ":", ".", "!", "?", "(", ")", "-", "--"})
TURNS = frozenset({"but", "although", "though", "however", "while", "whereas", "except", "yet"})
WORD = re.compile(r"[A-Za-z]{2,}")
# Tags of words that can precede a noun. A verb tagged as a noun ("it works", "I use") follows none of these.
BEFORE_A_NOUN = ("DT", "PRP$", "JJ", "IN", "CD", "POS", "NN", "VBG", "WP$")


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent nouns, in lower case and singular.

    Attributes:
        words: Such as ("sound", "quality").
        capitalised: For each word, whether it has a capital and is not the first word of a sentence.
        in_place: Whether an article, an adjective or the like precedes the run.
    """

    words: tuple[str, ...]
    capitalised: tuple[bool, ...]
    in_place: bool


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause.

    Attributes:
        text: Its words, separated by spaces.
        runs: Its nouns.
    """

    text: str
    runs: tuple[Run, ...]


def clauses(text: str) -> list[Clause]:
    """Return the clauses of a text, in order."""
    found = []
    for sentence in parser()(_plain(text), chunks=False).split("\n"):
        tokens = [tuple(token.rsplit("/", 1)) for token in sentence.split(" ") if "/" in token]
        start = 0
        for end, (word, _) in enumerate(tokens):
            if word in CLAUSE_ENDS or word.lower() in TURNS:
                found.append(_clause(tokens, start, end))
                # A word such as "but" belongs to neither clause, so that it does not affect their sentiment.
                start = end + 1
        found.append(_clause(tokens, start, len(tokens)))
    return [clause for clause in found if clause.text]


def _plain(text: str) -> str:
    text = html.unescape(text).replace("&", " and ").replace("/", " , ")
    for pattern, words in CONTRACTIONS:
        text = pattern.sub(words, text)
    return text


def _clause(tokens: list[tuple[str, ...]], start: int, end: int) -> Clause:
    runs, first = [], start
    while first < end:
        last = first
        while last < end and _is_noun(*tokens[last]):
            last += 1
        if last > first:
            runs.append(_run(tokens, first, last))
        first = last + 1
    return Clause(" ".join(word for word, _ in tokens[start:end]), tuple(runs))


def _run(tokens: list[tuple[str, ...]], first: int, last: int) -> Run:
    words = tuple(singular(word.lower()) if tag.endswith("S") else word.lower() for word, tag in tokens[first:last])
    capitals = tuple(tokens[at][0][0].isupper() and at > 0 for at in range(first, last))
    return Run(words, capitals, first > 0 and _may_precede_a_noun(*tokens[first - 1]))


def _may_precede_a_noun(word: str, tag: str) -> bool:
    return tag.startswith(BEFORE_A_NOUN) or word == "s"  # the tagger splits "amp's tone"


def _is_noun(word: str, tag: str) -> bool:
    return tag.startswith("NN") and WORD.fullmatch(word) is not None
