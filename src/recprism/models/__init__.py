"""Base recommenders: trained here (BPRMF, LightGCN), by another library, or brought along as vectors.

All end as ``Factors``.
"""

from recprism.models.bpr import BPRMF
from recprism.models.factors import Factors
from recprism.models.lightgcn import LightGCN
from recprism.models.registry import MODELS, make_model
from recprism.models.training import Checkpoint, CheckpointSink, Epoch, Progress

__all__ = [
    "BPRMF",
    "MODELS",
    "Checkpoint",
    "CheckpointSink",
    "Epoch",
    "Factors",
    "LightGCN",
    "Progress",
    "make_model",
]
