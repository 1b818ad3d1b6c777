from recprism.testing.metric_checks import check_metric as check_metric
from recprism.testing.planted import Planted as Planted
from recprism.testing.planted import make_planted as make_planted
from recprism.testing.synthetic import World as World
from recprism.testing.synthetic import make_world as make_world
