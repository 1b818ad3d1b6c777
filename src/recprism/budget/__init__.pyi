from recprism.budget.audit import Audit as Audit
from recprism.budget.certificate import Certificate as Certificate
from recprism.budget.path import rule_at as rule_at
from recprism.budget.problem import Problem as Problem
from recprism.budget.promise import Promise as Promise
from recprism.budget.segments import SegmentTable as SegmentTable
