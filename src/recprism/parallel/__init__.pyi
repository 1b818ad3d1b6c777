from recprism.cmb._executor import Executor as Executor
from recprism.cmb._executor import LocalExecutor as LocalExecutor
from recprism.cmb._executor import WorkerPool as WorkerPool
from recprism.parallel.executors import executor_named as executor_named
from recprism.parallel.ray_executor import RayExecutor as RayExecutor
