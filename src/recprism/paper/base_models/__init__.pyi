from recprism.paper.base_models.ease import EASE as EASE
from recprism.paper.base_models.sasrec import SASRec as SASRec
