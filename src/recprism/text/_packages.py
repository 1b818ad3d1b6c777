"""The two packages that read English, loaded on first use: both carry their word lists, nothing is downloaded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from recprism.errors import InputError


@cache
def parser() -> Callable[..., str]:
    """textblob's parser: text to lines of ``word/TAG``, one line a sentence."""
    parse: Callable[..., str] = _load("textblob.en").parse
    with warnings.catch_warnings():
        # Its first call reads word lists and leaves their files for the garbage collector to close.
        warnings.simplefilter("ignore", ResourceWarning)
        parse("A first sentence.", chunks=False)
    return parse


@cache
def singular(noun: str) -> str:
    """``strings`` to ``string``."""
    return str(_load("textblob.en.inflect").singularize(noun))


def sentiment_analyzer() -> Any:
    """A fresh vaderSentiment analyzer, whose lexicon the caller may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _load("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer()


def _load(module: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as missing:
        package = module.partition(".")[0]
        raise InputError(
            f"review text needs {package}, which is not installed ({missing}); run: pip install 'recprism[text]'"
        ) from None
