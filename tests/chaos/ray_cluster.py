"""A Ray cluster of two nodes on this machine, in a process of its own.

It prints its address. A line ``node`` on standard input kills the second node and adds another one,
answered by a line; the cluster ends with the input.
"""

import sys

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    print(f"address {cluster.address}", flush=True)
    for _ in sys.stdin:
        cluster.remove_node(node, allow_graceful=False)
        node = cluster.add_node(num_cpus=1)
        print("node", flush=True)
    cluster.shutdown()  # type: ignore[no-untyped-call]
