from recprism.explain.choice.fit import fit_choice_model as fit_choice_model
from recprism.explain.choice.model import ChoiceModel as ChoiceModel
from recprism.explain.explained import ExplainedLists as ExplainedLists
from recprism.explain.reasons.reason import Reason as Reason
from recprism.explain.reasons.reason import ReasonNot as ReasonNot
from recprism.explain.reasons.reason import WhatIf as WhatIf
