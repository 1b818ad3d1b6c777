"""A model of RecBole: what diversity would cost it, a rule that buys some, and a page about it.

RecBole lives in an environment of its own. There, tools/export_recbole.py writes the file that is read here; the one
below is a BPR that RecBole trained on the same split (tools/record_recbole.py).

python examples/from_recbole.py
"""

from __future__ import annotations

from pathlib import Path

import recprism as rp
from recprism.models.adapters import from_recbole
from recprism.report import write_report
from recprism.runs import BudgetConfig
from recprism.runs.jobs import diversify_within, run_from_factors

data = rp.load("ml-latest-small")
split = data.split(seed=0)
exported = Path(__file__).parents[1] / "tests" / "golden" / "recbole" / "BPR.npz"

factors = from_recbole(exported)
run = run_from_factors("runs/recbole", factors, data, split, overwrite=True)
print(*rp.audit(run.problem(), goal="subtopic_coverage").sentences(), sep="\n")  # the audit
print(diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.05})).certificate.sentence())
lists = run.load_result().lists()  # live lists; .export(FOLDER, "user-vectors") writes vectors for an index
write_report(run, draws=0)  # runs/recbole/report.html; with draws=199 it runs the controls of its factors, too
