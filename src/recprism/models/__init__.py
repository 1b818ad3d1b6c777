"""Base recommenders: trained here (BPRMF, LightGCN), by another library, or brought along as vectors.

All end as ``Factors``.
"""

from recprism.models.bpr import BPRMF
from recprism.models.factors import COSINE, INNER_PRODUCT, Factors
from recprism.models.lightgcn import LightGCN
from recprism.models.registry import MODELS, make_model
from recprism.models.training import Checkpoint, CheckpointSink, Epoch, Progress

__all__ = [
    "BPRMF",
    "COSINE",
    "INNER_PRODUCT",
    "MODELS",
    "Checkpoint",
    "CheckpointSink",
    "Epoch",
    "Factors",
    "LightGCN",
    "Progress",
    "make_model",
]
