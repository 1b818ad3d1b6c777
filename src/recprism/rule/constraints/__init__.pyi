from recprism.rule.constraints.constrained import Constrained as Constrained
from recprism.rule.constraints.constraints import Constraints as Constraints
from recprism.rule.constraints.violations import Unmet as Unmet
from recprism.rule.constraints.violations import Violations as Violations
