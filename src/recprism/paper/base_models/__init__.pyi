from recprism.paper.base_models.ease import EASE as EASE
from recprism.paper.base_models.exchange import read_model as read_model
from recprism.paper.base_models.sasrec import SASRec as SASRec
from recprism.paper.base_models.tuned import make_base_model as make_base_model
from recprism.paper.base_models.tuned import train as train
