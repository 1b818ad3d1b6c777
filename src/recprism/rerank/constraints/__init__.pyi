from recprism.rerank.constraints.constrained import Constrained as Constrained
from recprism.rerank.constraints.constrained import Violation as Violation
from recprism.rerank.constraints.constrained import Violations as Violations
