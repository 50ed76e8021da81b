"""`headrace dev kafka up | down | status`."""

from __future__ import annotations

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
