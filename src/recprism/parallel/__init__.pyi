from recprism.parallel.executors import executor_named as executor_named
from recprism.parallel.ray_executor import RayExecutor as RayExecutor
