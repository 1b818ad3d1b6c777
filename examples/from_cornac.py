"""A model of Cornac: what diversity would cost it, a rule that buys some, and a page about it.

python examples/from_cornac.py
"""

from __future__ import annotations

from cornac.data import Dataset
from cornac.models import BPR

import recprism as rp
from recprism.models.adapters import from_cornac
from recprism.report import write_report
from recprism.runs import BudgetConfig
from recprism.runs.jobs import diversify_within, run_from_factors

data = rp.load("ml-latest-small")
split = data.split(seed=0)
pairs = zip(split.user_ids[split.train.row_of_entry], split.item_ids[split.train.indices], strict=True)
taken = Dataset.from_uir([(user, item, 1.0) for user, item in pairs], seed=0)
model = BPR(k=32, max_iter=100, learning_rate=0.05, lambda_reg=0.01, seed=0, verbose=False).fit(taken)

factors = from_cornac(model)  # it never saw one of the items: the run goes without it, and says so
run = run_from_factors("runs/cornac", factors, data, split, overwrite=True)
print(*rp.audit(run.problem(), goal="subtopic_coverage").sentences(), sep="\n")  # the audit
print(diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.05})).certificate.sentence())
lists = run.load_result().lists()  # live lists; .export(FOLDER, "user-vectors") writes vectors for an index
write_report(run, draws=0)  # runs/cornac/report.html; with draws=199 it runs the controls of its factors, too
