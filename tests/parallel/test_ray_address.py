"""RAY_ADDRESS names a running cluster: it is used, and not stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="needs the extra [ray]")
pytestmark = pytest.mark.ray

FIT = """
import ray
from recprism.cmb import CMB
from recprism.testing.planted import make_planted
from recprism.models import Factors
from recprism.parallel import RayExecutor

made, nodes = make_planted(n_users=80, n_items=100, seed=0), set()
base = Factors.from_arrays(made.user, made.item)
settings = {"iterations": 2, "k": 5, "shards": 2, "device": "cpu"}
here = CMB(**settings).fit(base, made.split, made.subtopics)
count = lambda _: nodes.add(len(ray.nodes()))
there = CMB(**settings).fit(base, made.split, made.subtopics, follow=count, executor=RayExecutor())
print(nodes, here.delta_.item.equal(there.delta_.item), ray.is_initialized())
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
    """The search sees two nodes, which a new local cluster does not have, and disconnects afterwards."""
    environment = {**os.environ, "RAY_ADDRESS": two_nodes}
    done = subprocess.run(
        [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "{2} True False\n", done.stderr
