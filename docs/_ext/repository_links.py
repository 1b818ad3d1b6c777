"""Pages link to files of the repository as a forge shows it; on the site those outside docs/ become downloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

RELATIVE = re.compile(r"\]\((?P<path>[^()\s:#]+)\)")


def _to_files(app: Any, docname: str, source: list[str]) -> None:
    docs = Path(app.srcdir)
    folder = (docs / docname).parent

    def mended(found: re.Match[str]) -> str:
        target = (folder / found["path"]).resolve()
        return f"](path:{found['path']})" if target.is_file() and not target.is_relative_to(docs) else found[0]

    source[0] = RELATIVE.sub(mended, source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _to_files)
    return {"parallel_read_safe": True}
