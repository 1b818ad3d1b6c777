from recprism.models.bpr import BPRMF as BPRMF
from recprism.models.factors import Factors as Factors
from recprism.models.lightgcn import LightGCN as LightGCN
from recprism.models.perturbation import Perturbation as Perturbation
