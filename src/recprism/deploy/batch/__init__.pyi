from recprism.deploy.batch.dials import FittedDials as FittedDials
from recprism.deploy.batch.lists import BatchLists as BatchLists
from recprism.deploy.batch.lists import BatchRule as BatchRule
from recprism.deploy.batch.lists import StageTimes as StageTimes
from recprism.deploy.batch.shards import BatchResult as BatchResult
from recprism.deploy.batch.shards import make_batch as make_batch
