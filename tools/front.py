"""Draw the picture of the README: what diversity costs, method by method, each at the best of its trials.

python tools/frontier_docs.py     writes docs/front.json from the recorded contest
python tools/front.py             draws docs/front.svg from docs/front.json
"""

from __future__ import annotations

import json
from pathlib import Path

from charts import Points, scatter_chart

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    paths = json.loads((DOCS / "front.json").read_text(encoding="utf-8"))["change_in_percent"]
    clouds = [Points(name, [(x, y) for x, y in path if x > -25], joined=len(path) > 1) for name, path in paths.items()]
    svg = scatter_chart(clouds, "NDCG@10, % change", "subtopic coverage SC@10, % change")
    (DOCS / "front.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
