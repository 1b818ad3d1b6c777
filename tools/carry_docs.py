"""Write the tables of docs/design/carry.md from recorded measurements.

python benchmarks/carry.py --data-root DIR --out docs/design/carry.json
python tools/carry_docs.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DESIGN = Path(__file__).parents[1] / "docs" / "design"
SETS = {"ml-1m": "ML-1M", "amazon-cds-2014": "CDs-2014"}
CONTROLS = ("one number per item", "bias part of item vectors")
Row = dict[str, Any]


def main() -> None:
    recorded = json.loads((DESIGN / "carry.json").read_text(encoding="utf-8"))
    page = (DESIGN / "carry.md").read_text(encoding="utf-8")
    parts = {"shares": shares(recorded["rows"]), "changes": changes(recorded["rows"])}
    parts["price"] = price(recorded["milliseconds"])
    for name, part in parts.items():
        mark = f"<!-- {name}: written by tools/carry_docs.py -->"
        page = re.sub(rf"{mark}.*?<!-- end -->", lambda _, it=f"{mark}\n{part}\n<!-- end -->": it, page, flags=re.S)
    (DESIGN / "carry.md").write_text(page, encoding="utf-8")


def shares(rows: list[Row]) -> str:
    """Which artefact keeps what: the share of the rule's gain in SC, with its interval."""
    situations = list(dict.fromkeys(row["situation"] for row in rows))
    lines = [["", "data", *situations]]
    for artefact in dict.fromkeys(row["artefact"] for row in rows):
        for name in dict.fromkeys(row["set"] for row in rows):
            own = {it["situation"]: it for it in rows if (it["artefact"], it["set"]) == (artefact, name)}
            lines.append([artefact, SETS[name], *(_share(own[it]) for it in situations)])
    return _table(lines)


def _share(row: Row) -> str:
    middle, low, high = (f"{100 * it:.0f}" for it in row["share"])
    if row["artefact"].startswith("the rule"):
        return f"{middle} %"
    beats = row["artefact"] not in CONTROLS and row["over_control"][1] > 0
    return f"{'**' if beats else ''}{middle} %{'**' if beats else ''} ({low} to {high})"


def changes(rows: list[Row]) -> str:
    """Every claim with its control: the changes of NDCG and SC, and SC over that of one number per item."""
    head = ["data", "situation", "artefact", "NDCG@10", "SC@10", "SC over the control", "more than promotion?"]
    lines = [head]
    for row in rows:
        over, is_control = row["over_control"], row["artefact"] in CONTROLS
        verdict = "control" if is_control else "yes" if over[1] > 0 else "no"
        lines.append(
            [
                *(SETS[row["set"]], row["situation"], row["artefact"], _change(row["ndcg"]), _change(row["sc"])),
                "" if row["artefact"] == CONTROLS[0] else _change(over),
                verdict,
            ]
        )
    return _table(lines)


def price(milliseconds: dict[str, dict[str, float]]) -> str:
    names = list(dict.fromkeys(name for each in milliseconds.values() for name in each))
    lines = [["one request", *(SETS[name] for name in milliseconds)]]
    lines += [[name, *(f"{each[name]:.2f} ms" for each in milliseconds.values())] for name in names]
    return _table(lines)


def _change(values: list[float]) -> str:
    middle, low, high = (f"{100 * it:+.1f}".replace("-", "−") for it in values)
    return f"{middle} ({low} to {high})"


def _table(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], ["---"] * len(lines[0]), *lines[1:]))


if __name__ == "__main__":
    main()
