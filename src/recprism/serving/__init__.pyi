from recprism.serving.one_list import diversify_list as diversify_list
from recprism.serving.ranked import Ranked as Ranked
from recprism.serving.rule import ServedRule as ServedRule
from recprism.serving.rule import load_rule as load_rule
