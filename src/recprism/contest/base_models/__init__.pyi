from recprism.contest.base_models.ease import EASE as EASE
from recprism.contest.base_models.sasrec import SASRec as SASRec
