"""A model of implicit: what diversity would cost it, a rule that buys some, and a page about it.

python examples/from_implicit.py
"""

from __future__ import annotations

from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

import recprism as rp
from recprism.models.adapters import from_implicit
from recprism.report import write_report
from recprism.runs import BudgetConfig
from recprism.runs.jobs import diversify_within, run_from_factors

data = rp.load("ml-latest-small")
split = data.split(seed=0)
model = AlternatingLeastSquares(factors=32, regularization=0.1, alpha=10, random_state=0)
model.fit(csr_matrix(split.train.to_scipy()), show_progress=False)

factors = from_implicit(model, user_ids=split.user_ids, item_ids=split.item_ids)
run = run_from_factors("runs/implicit", factors, data, split, overwrite=True)
print(*rp.audit(run.problem(), goal="subtopic_coverage").sentences(), sep="\n")  # the audit
print(diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.05})).certificate.sentence())
lists = run.load_result().lists()  # live lists; .export(FOLDER, "user-vectors") writes vectors for an index
write_report(run, draws=0)  # runs/implicit/report.html; with draws=199 it runs the controls of its factors, too
