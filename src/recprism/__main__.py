"""``python -m recprism`` is the command line."""

from recprism.cli import main

main()
