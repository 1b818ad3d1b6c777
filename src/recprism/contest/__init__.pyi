from recprism.contest.fronts import Front as Front
from recprism.contest.fronts import frontier as frontier
