from recprism.budget.audit import Audit as Audit
from recprism.budget.certificate import Certificate as Certificate
from recprism.budget.path import rule_at as rule_at
from recprism.budget.promise import Promise as Promise
from recprism.budget.scenario import Scenario as Scenario
from recprism.budget.segments import SegmentTable as SegmentTable
