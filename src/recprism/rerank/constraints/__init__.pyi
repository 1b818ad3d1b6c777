from recprism.rerank.constraints.constrained import Constrained as Constrained
from recprism.rerank.constraints.constraints import Constraints as Constraints
from recprism.rerank.constraints.violations import Violations as Violations
