from recprism.api.estimator import Diversifier as Diversifier
