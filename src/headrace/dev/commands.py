"""`headrace dev kafka` and `headrace cluster`: up, down, status."""

from __future__ import annotations

from . import cluster
from .jars import KAFKA, fetched
from .kafka import PORT, Broker, folder


def kafka_up(port: int | None) -> int:
    """Start the broker, after fetching it the first time."""
    broker = Broker(folder(), port=port)
    if fetched(KAFKA) is None:
        print(f"fetching {KAFKA} from Maven Central (44 MB, once)", flush=True)
    broker.start()
    print(f"{KAFKA} is up at {broker.servers} (pid {broker.pid})")
    print(f'  hr.read.kafka("{broker.servers}", topic, schema=...)')
    print("  headrace dev kafka down   stops it and removes its data")
    return 0


def kafka_down() -> int:
    """Stop the broker and remove its data; that it does not run is no mistake."""
    broker = Broker(folder())
    servers = broker.servers
    print(f"Kafka at {servers} is stopped" if broker.remove() else "Kafka was not running")
    return 0


def kafka_status() -> int:
    """Say whether the broker runs; 1 if it does not."""
    broker = Broker(folder())
    pid = broker.pid
    if pid is None:
        print(f"Kafka is not running; start it: headrace dev kafka up [--port {PORT}]")
        return 1
    state = "up" if broker.answers() else "running, but does not answer"
    print(f"{KAFKA} is {state} at {broker.servers} (pid {pid})")
    return 0 if state == "up" else 1


def cluster_up(workers: int, cores: int, memory: str, port: int | None) -> int:
    """Start a Spark cluster."""
    made = cluster.Cluster(cluster.folder(), port=port)
    made.start(workers, cores, memory)
    each = "1 core" if cores == 1 else f"{cores} cores"
    print(f"a master and {workers} workers with {each} each are up")
    print(f'  hr.run(..., master="{made.url}"), or headrace run FILE --master {made.url}')
    print("  headrace cluster down   stops it and removes its files")
    return 0


def cluster_down() -> int:
    """Stop the cluster; that it does not run is no mistake."""
    made = cluster.Cluster(cluster.folder())
    url = made.url
    print(f"the cluster at {url} is stopped" if made.remove() else "no cluster was running")
    return 0


def cluster_status() -> int:
    """Say how the cluster is; 1 if it does not run, or not all of it."""
    made = cluster.Cluster(cluster.folder())
    pids = made.pids
    if not pids:
        print("no cluster is running; start one: headrace cluster up [--workers 2]")
        return 1
    found = made.status()
    if found is None:
        print(f"the master at {made.url} does not answer; processes: {pids}")
        return 1
    print(f"{made.url}: {found.workers} of {made.wanted_workers} workers,", end=" ")
    print(f"{found.cores_used} of {found.cores} cores in use")
    for name in found.applications:
        print(f"  runs {name}")
    return 0 if found.workers == made.wanted_workers else 1
