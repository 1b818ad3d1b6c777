"""The two packages that analyse English, loaded on first use. Both contain their word lists; nothing is downloaded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from recprism.common.extras import needing


@cache
def parser() -> Callable[..., str]:
    """Return textblob's parser: text to lines of ``word/TAG``, one line per sentence."""
    parse: Callable[..., str] = _load("textblob.en").parse
    with warnings.catch_warnings():
        # Its first call reads word lists and does not close their files.
        warnings.simplefilter("ignore", ResourceWarning)
        parse("A first sentence.", chunks=False)
    return parse


@cache
def singular(noun: str) -> str:
    """Return the singular: ``string`` for ``strings``."""
    return str(_load("textblob.en.inflect").singularize(noun))


def sentiment_analyzer() -> Any:
    """Return a new vaderSentiment analyzer, whose lexicon the caller may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _load("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer()


def _load(module: str) -> Any:
    with needing("review text", "text"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(module)
