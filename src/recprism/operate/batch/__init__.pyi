from recprism.operate.batch.shards import BatchResult as BatchResult
from recprism.operate.batch.shards import make_batch as make_batch
