"""Commands of recprism as a shell takes them: what pages and the command line tell people to type."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Any


def command_line(command: str, *arguments: object, **options: Any) -> str:
    """Write a command, with quotes where a shell needs them.

    Args:
        command: Its name, as in ``data stats``.
        *arguments: What follows the name.
        **options: Option -> value. None and False are left out, True is a flag, and a list repeats the option.

    >>> command_line("train", data="my log.csv", column=["user_id=who", "item_id=sku"], overwrite=True, seed=None)
    "recprism train --data 'my log.csv' --column user_id=who --column item_id=sku --overwrite"
    """
    words = ["recprism", *command.split(), *map(str, arguments)]
    for name, given in options.items():
        for value in given if isinstance(given, list | tuple) else (given,):
            if value is not None and value is not False:
                words += [f"--{name.replace('_', '-')}", *(() if value is True else (str(value),))]
    return shlex.join(words)


def in_commas(word: object) -> str:
    """Quote a word of an option that divides its words at commas.

    >>> in_commas("Smith, J."), in_commas(7)
    ('"Smith, J."', '7')
    """
    text = str(word)
    return f'"{text.replace(chr(34), 2 * chr(34))}"' if "," in text or '"' in text else text


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Return a name like the one that is wanted, which is not taken.

    >>> free_name("bold", ["bold", "bold-2"])
    'bold-3'
    """
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name
