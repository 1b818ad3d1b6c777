"""``python -m recprism.serving warm RULE``: compile what exported rules need, for example when an image is built."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from recprism.common.compile import cache_folder
from recprism.errors import InputError
from recprism.serving.rule import load_rule


def main(words: Sequence[str] | None = None) -> None:
    """Read the words of the command line and compile; a mistake is one sentence and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m recprism.serving",
        description="Prepare exported rules for a fast start. The HTTP service is `recprism serve RULE`.",
    )
    command = parser.add_subparsers(dest="command", required=True, metavar="warm").add_parser(
        "warm",
        help="compile what rules need and keep it",
        description="Compile what exported rules need and keep it, so that no later process compiles. The code is kept "
        "in NUMBA_CACHE_DIR if it is set, else inside the installed package, else in the user's cache folder. It "
        "serves processors of the same kind.",
    )
    command.add_argument("rules", nargs="+", metavar="RULE", help="folder that `recprism export RUN` wrote")
    try:
        _warm(parser.parse_args(words).rules)
    except InputError as problem:
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(2)


def _warm(rules: Sequence[str]) -> None:
    folder = cache_folder()
    if folder is None:
        raise InputError("no folder for compiled code is writable; set NUMBA_CACHE_DIR to one that is")
    for rule in rules:
        start = time.process_time()
        load_rule(rule)
        sys.stdout.write(f"{rule}: ready after {time.process_time() - start:.1f} CPU seconds\n")
    sys.stdout.write(f"compiled code: {folder}\n")


if __name__ == "__main__":
    main()
