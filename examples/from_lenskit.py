"""A model of LensKit: what diversity would cost it, a rule that buys some, and a page about it.

LensKit 2025 asks for pandas 2; in an environment of its own: pip install 'recprism[lenskit]'.

python examples/from_lenskit.py
"""

from __future__ import annotations

import pandas as pd
from lenskit.als import ImplicitMFScorer
from lenskit.data import from_interactions_df
from lenskit.pipeline import topn_pipeline

import recprism as rp
from recprism.models.adapters import from_lenskit
from recprism.report import write_report
from recprism.runs import BudgetConfig
from recprism.runs.jobs import diversify_within, run_from_factors

data = rp.load("ml-latest-small")
split = data.split(seed=0)
users, items = split.user_ids[split.train.row_of_entry], split.item_ids[split.train.indices]
pipeline = topn_pipeline(ImplicitMFScorer(embedding_size=32, epochs=10))
pipeline.train(from_interactions_df(pd.DataFrame({"user_id": users, "item_id": items})))

factors = from_lenskit(pipeline)  # it never saw one of the items: the run goes without it, and says so
run = run_from_factors("runs/lenskit", factors, data, split, overwrite=True)
print(*rp.audit(run.problem(), goal="subtopic_coverage").sentences(), sep="\n")  # the audit
print(diversify_within(run, BudgetConfig(goal="subtopic_coverage", budgets={"ndcg@10": 0.05})).certificate.sentence())
lists = run.load_result().lists()  # live lists; .export(FOLDER, "user-vectors") writes vectors for an index
write_report(run, draws=0)  # runs/lenskit/report.html; with draws=199 it runs the controls of its factors, too
