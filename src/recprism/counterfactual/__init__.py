"""Counterfactual search: what would the lists be if the factors were a little different, and which difference pays?"""

from recprism.counterfactual.arms import Arms
from recprism.counterfactual.cmb import CMB, Adjusted
from recprism.counterfactual.controls import noise, permuted
from recprism.counterfactual.ledger import Progress, Step
from recprism.counterfactual.objective import Objective, own_metric
from recprism.counterfactual.play import SearchSettings
from recprism.counterfactual.policies import POLICIES, UCB, EpsilonGreedy, Policy, RandomArms
from recprism.counterfactual.search import Found, search
from recprism.counterfactual.space import FactorSpace, Perturbation, Scorer, ScorerSpace, Space

__all__ = [
    "CMB",
    "POLICIES",
    "UCB",
    "Adjusted",
    "Arms",
    "EpsilonGreedy",
    "FactorSpace",
    "Found",
    "Objective",
    "Perturbation",
    "Policy",
    "Progress",
    "RandomArms",
    "Scorer",
    "ScorerSpace",
    "SearchSettings",
    "Space",
    "Step",
    "noise",
    "own_metric",
    "permuted",
    "search",
]
