"""Re-rankers: candidates and their scores in, k of them chosen for relevance and diversity out.

``MMR(trade_off=0.3)(candidates, scores, 10, features=Features(vectors=factors.item))`` gives lists ready for
``recprism.metrics``. All share one signature and one knob from 0 (relevance) to 1 (diversity); ``RERANKERS`` lists them
by name.
"""

from recprism.rerank.calibrated import Calibrated
from recprism.rerank.constraints import Constrained, Violation, Violations
from recprism.rerank.dpp import DPP
from recprism.rerank.dpp_window import SlidingDPP
from recprism.rerank.exposure import ExposureAware
from recprism.rerank.features import Features, subtopic_probabilities
from recprism.rerank.mmr import MMR
from recprism.rerank.msd import MSD
from recprism.rerank.optimal import Optimal
from recprism.rerank.pm2 import PM2
from recprism.rerank.pmmf import PMMF
from recprism.rerank.registry import RERANKERS, register, reranker
from recprism.rerank.reranker import Reranker
from recprism.rerank.slots import SlotFilling
from recprism.rerank.ssd import SSD
from recprism.rerank.xquad import XQuAD

__all__ = [
    "DPP",
    "MMR",
    "MSD",
    "PM2",
    "PMMF",
    "RERANKERS",
    "SSD",
    "Calibrated",
    "Constrained",
    "ExposureAware",
    "Features",
    "Optimal",
    "Reranker",
    "SlidingDPP",
    "SlotFilling",
    "Violation",
    "Violations",
    "XQuAD",
    "register",
    "reranker",
    "subtopic_probabilities",
]
