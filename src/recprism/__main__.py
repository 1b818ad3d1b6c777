"""The command ``recprism``; ``python -m recprism`` is the same.

Without the packages that a command needs it says what to install. That much works with Python alone.
"""

from __future__ import annotations

import sys

from recprism.common.extras import missing_from, require
from recprism.errors import MissingDependencyError

HELP = """Usage: recprism COMMAND ...

Most commands need packages that are not installed.
All commands: pip install 'recprism[full]'
`recprism serve` alone: pip install 'recprism[serve]'
In Python, recprism.serving.load_rule(FOLDER) serves an exported rule without them.
"""


def main() -> None:
    """Run a command, or say in one sentence what it needs."""
    words = sys.argv[1:]
    command = next((word for word in words if not word.startswith("-")), None)
    extra = "serve" if command == "serve" else "full"
    if command is None and missing_from(extra):
        from recprism.common.version import __version__

        sys.stdout.write(f"recprism {__version__}\n" if "--version" in words else HELP)
        sys.exit(0 if words else 2)
    try:
        require(f"recprism {command}", extra)
    except MissingDependencyError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    from recprism.cli import main as run

    run()


if __name__ == "__main__":
    main()
