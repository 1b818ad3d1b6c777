"""RAY_ADDRESS names a running cluster: it is used, and not stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray

WORK = """
import ray
from recprism.parallel import RayExecutor

nodes = set()
powers = list(RayExecutor().map(pow, 2, [1, 2, 3], on_done=lambda: nodes.add(len(ray.nodes()))))
print(nodes, powers, ray.is_initialized())
"""


@pytest.fixture
def two_nodes() -> Iterator[str]:
    """The address of a cluster of two nodes, each in its own processes on this machine."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster.address
    cluster.shutdown()


@pytest.mark.filterwarnings("ignore:.*subprocess .* is still running:ResourceWarning")
def test_a_cluster_named_by_the_environment_is_used(two_nodes: str) -> None:
    """The work sees two nodes, which a new local cluster does not have, and disconnects afterwards."""
    environment = {**os.environ, "RAY_ADDRESS": two_nodes}
    done = subprocess.run(
        [sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    # Ray may print above it that a process ended before it was needed.
    assert done.stdout.splitlines()[-1:] == ["{2} [2, 4, 8] False"], done.stderr
