"""Write docs/frontier.md from recorded comparisons.

recprism compare --grid full --json > docs/frontier/random.json
recprism compare --grid ml-1m:bprmf --split temporal --json > docs/frontier/temporal.json
python tools/frontier_docs.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {
    "subtopic_coverage@10": "SC",
    "alpha_ndcg@10": "α-nDCG",
    "ilad_subtopics@10": "ILAD",
    "catalogue_coverage@10": "PC",
}
Cell = dict[str, Any]


def main() -> None:
    text = (DOCS / "frontier" / "text.md").read_text(encoding="utf-8")
    cells = _cells("random")
    parts = {"count": _count(cells), "verdicts": _verdicts(cells), "rivals": _rivals(cells)}
    in_time = _cells("temporal")
    parts |= {"temporal": _verdicts(in_time), "temporal count": _count(in_time)}
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    (DOCS / "frontier.md").write_text(text, encoding="utf-8")


def _cells(name: str) -> list[Cell]:
    path = DOCS / "frontier" / f"{name}.json"
    if not path.exists():
        return []
    recorded = json.loads(path.read_text(encoding="utf-8"))
    return [{**cell, "seeds": recorded["seeds"]} for cell in recorded["cells"]]


def _count(cells: list[Cell]) -> str:
    counts = [sum(cell["outcome"] == word for cell in cells) for word in ("won", "tied", "lost")]
    return f"{counts[0]} won, {counts[1]} tied, {counts[2]} lost of {len(cells)} cells"


def _verdicts(cells: list[Cell]) -> str:
    if not cells:
        return "*(not recorded)*"
    columns = (
        "world",
        "seeds",
        "budget",
        "goal",
        "ours",
        "of the ceiling",
        "all goals at once",
        "best rival",
        "outcome",
    )
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for cell in cells:
        best = cell["best_rival"]
        words = (
            _plain(cell["world"]),
            str(cell["seeds"]),
            f"{100 * cell['budget']:g} %",
            TITLES[cell["goal"]],
            f"**{_shown(cell['ours'])}**",
            f"{100 * cell['share_of_ceiling']:.1f} %",
            _shown(cell["at_once"]),
            f"{best['method']} {_shown(best)}",
            cell["outcome"],
        )
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def _rivals(cells: list[Cell]) -> str:
    """All methods in every cell, one table per world."""
    worlds = dict.fromkeys(cell["world"] for cell in cells)
    return "\n\n".join(_everybody([cell for cell in cells if cell["world"] == world]) for world in worlds)


def _everybody(cells: list[Cell]) -> str:
    heads = [f"{TITLES[cell['goal']]} {100 * cell['budget']:g} %" for cell in cells]
    lines = [f"### {_plain(cells[0]['world'])}", "", "| method | " + " | ".join(heads) + " |"]
    lines += ["|---" * (len(heads) + 1) + "|"]
    lines.append("| **ours** | " + " | ".join(f"**{_shown(cell['ours'])}**" for cell in cells) + " |")
    rows = [[duel["rival"] for duel in cell["duels"]] + cell["beside"] for cell in cells]
    for standings in zip(*rows, strict=True):
        lines.append(f"| {standings[0]['method']} | " + " | ".join(map(_shown, standings)) + " |")
    return "\n".join(lines)


def _plain(world: str) -> str:
    return world.removesuffix("-random").removesuffix("-temporal")


def _shown(standing: dict[str, Any]) -> str:
    """Gain in percent, and the loss of NDCG@10 behind it."""
    return f"{100 * standing['gain']:+.1f} ({-100 * standing['loss']:+.1f})"


if __name__ == "__main__":
    main()
