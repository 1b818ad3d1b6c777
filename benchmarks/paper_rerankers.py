"""Which settings give the paper's rows of MMR and DPP, which lose three quarters of the accuracy?

    python benchmarks/paper_rerankers.py [--json]

ML-1M, BPRMF with the paper's settings, one seed, the protocol of the paper's tables. Both methods run with seen items
in the candidates or not, with more or fewer candidates, and with other trade-offs; the paper's 0.9 is a trade-off of
0.1, and 0.9 is its reversal. Figures are changes in percent of the base row, next to those of the paper. It needs
ml-1m in RECPRISM_DATA. A minute.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from harness import Claim, parser, report
from recprism.cmb.reproduce import PaperCase
from recprism.cmb.tables import paper_table
from recprism.data import load_dataset
from recprism.rivals import reranker
from recprism.rule import Features

COLUMNS = ("recall", "ndcg", "alpha_ndcg", "subtopic_coverage", "catalogue_coverage", "ilad")
PAPER = ("recall", "ndcg", "alpha_ndcg", "sc", "pc", "ilad")
DEPTH, K, WHOLE = 20, 10, 3125


class Variant(NamedTuple):
    """One way to run a method; ``seen`` says whether seen items may be recommended."""

    method: str
    seen: bool
    candidates: int
    trade_off: float


VARIANTS = (
    *(Variant("mmr", seen, 200, trade_off) for seen in (False, True) for trade_off in (0.1, 0.3, 0.9)),
    Variant("mmr", False, WHOLE, 0.9),
    *(Variant("dpp", seen, 200, trade_off) for seen in (False, True) for trade_off in (0.1, 0.6, 0.9)),
    Variant("dpp", True, 100, 0.9),
)


def main() -> None:
    chosen = parser(__doc__).parse_args()
    with TemporaryDirectory() as folder:
        case = PaperCase(load_dataset("ml-1m", preset="paper"), 0, Path(folder), "cpu")
        base = figures(case, None)
        rows = [[*described(it), *changes(figures(case, it), base)] for it in VARIANTS]
    base_of_paper = of_paper("BPRMF")
    table = [["method", "seen items", "candidates", "trade-off", *COLUMNS]]
    for name in ("MMR", "DPP"):
        table.append([name, "the paper", "", "", *changes(of_paper(name), base_of_paper)])
        table += [row for row in rows if row[0] == name]
    if not chosen.json:
        print("\n".join("| " + " | ".join(row) + " |" for row in table), end="\n\n")
    claims = [Claim("variants of MMR and DPP", len(VARIANTS), None)]
    report(claims, as_json=chosen.json, details={"table": table})


def figures(case: PaperCase, variant: Variant | None) -> np.ndarray:
    """The paper's columns at 10 of a variant, or of the base lists."""
    factors = case.factors("BPRMF")
    if variant is None:
        lists, _ = factors.rank(DEPTH, exclude=case.split.train)
    else:
        pool = factors.rank(variant.candidates, exclude=None if variant.seen else case.split.train)
        method = reranker(variant.method, trade_off=variant.trade_off)
        lists = np.asarray(method(*pool, DEPTH, features=Features(vectors=factors.item)))
    judged = case.judge(lists, factors.item, (K, DEPTH))
    return np.array([judged[f"{column}@{K}"] for column in COLUMNS])


def of_paper(method: str) -> np.ndarray:
    """The same columns of a row of the paper."""
    table = paper_table()
    rows = table.filter(
        (table["table"] == "tradeoff_bprmf")
        & (table["dataset"] == "ML1M")
        & (table["method"] == method)
        & (table["k"] == K)
    )
    values = dict(zip(rows["metric"], rows["value"], strict=True))
    return np.array([values[name] for name in PAPER])


def changes(values: np.ndarray, base: np.ndarray) -> list[str]:
    return [f"{change:+.1f}" for change in 100 * (values / base - 1)]


def described(variant: Variant) -> list[str]:
    candidates = "all" if variant.candidates == WHOLE else str(variant.candidates)
    return [variant.method.upper(), "kept" if variant.seen else "left out", candidates, f"{variant.trade_off:g}"]


if __name__ == "__main__":
    main()
