from recprism.deploy.batch.shards import BatchResult as BatchResult
from recprism.deploy.batch.shards import make_batch as make_batch
