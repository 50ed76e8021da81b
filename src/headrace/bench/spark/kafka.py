"""Messages of a real Kafka broker, against Spark's own connector with `from_json`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace import col
from headrace.bench.figure import Skipped
from headrace.dev.errors import DevError
from headrace.dev.jars import Program, fetch
from headrace.workloads import ysb
from headrace.workloads.compare import same_rows

from .context import BATCHES, Context
from .queries import Timed, against, run_ours, run_theirs

TOPIC = "events"
PARTITIONS = 2
LAST_MS = 1_000_000  # how long after all others the last message comes
# What the connector needs and PySpark lacks. Its token provider is not there in every version.
BESIDE = (
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
OLDER = "4.2.0"  # of the connector: where that of the very version is missing, it does as well
EVENTS = {"ad_id": "int64", "event_type": "int64", "event_time": "int64"}


def jars() -> list[str]:
    """The jars of Spark's connector for this PySpark, fetched where they are missing."""
    import pyspark

    wanted = pyspark.__version__
    reasons = []
    for version in dict.fromkeys((wanted, OLDER)):
        connector = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)
        program = Program("spark-kafka", connector, beside=BESIDE, java=17, alone=True)
        try:
            return [str(path) for path in fetch(program).glob("*.jar")]
        except DevError as error:
            reasons.append(str(error).splitlines()[0])
    raise Skipped(f"Spark's Kafka connector cannot be had: {reasons[-1]}")


def kafka_json(context: Context) -> dict[str, Any]:
    """The Yahoo query over JSON messages."""
    if not context.kafka_jars:
        raise Skipped(context.no_kafka)
    rows = context.rows(1_000_000)
    with _broker(context) as servers:
        context.say("sending messages")
        campaigns, end = _send(servers, rows)
        context.say("theirs")
        theirs = _theirs(context, servers, campaigns, rows)
        context.say("ours")
        ours = _ours(context, servers, campaigns, rows)
    closed = ours.result.filter(pc.less(ours.result["window_start"], pa.scalar(end)))
    return against(rows, ours, theirs, same_rows(closed, theirs.result))


@contextmanager
def _broker(context: Context) -> Iterator[str]:
    from headrace.dev.kafka import Broker, free_port

    broker = Broker(context.new_folder("kafka"), port=free_port(), dies_with_us=True)
    try:
        broker.start()
    except DevError as error:
        raise Skipped(f"no Kafka broker: {str(error).splitlines()[0]}") from None
    try:
        yield broker.servers
    finally:
        broker.remove()


# ---- messages --------------------------------------------------------------------------------


def _send(servers: str, rows: int) -> tuple[pa.Table, int]:
    """All batches, in turns to the partitions; gives the table of campaigns and the last time."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    data = ysb.make(rows)
    heads = _heads(data.events)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(rows * BATCHES):
        row, at = number % rows, ysb.START_MS + number * ysb.SPAN_MS // rows
        _produce(producer, f'{heads[row]}"event_time":{at}}}', row % PARTITIONS)
    end = ysb.START_MS + BATCHES * ysb.SPAN_MS + LAST_MS
    view = data.events["event_type"].to_pylist().index(ysb.VIEW)
    _produce(producer, f'{heads[view]}"event_time":{end}}}', 0)
    if producer.flush(60):
        raise Skipped("the broker did not take all messages within a minute")
    return data.campaigns, end - LAST_MS // 2


def _heads(events: pa.Table) -> list[str]:
    """Each event as JSON, but for its time."""
    names = [name for name in events.schema.names if name != "event_time"]
    columns = [events[name].to_pylist() for name in names]
    form = "{" + "".join(f'"{name}":%d,' for name in names)
    return [form % row for row in zip(*columns)]


def _produce(producer: Any, message: str, partition: int) -> None:
    while True:
        try:
            producer.produce(TOPIC, message, partition=partition)
            return
        except BufferError:  # it sends in the background
            producer.poll(0.1)


# ---- the query -------------------------------------------------------------------------------


def _ours(context: Context, servers: str, campaigns: pa.Table, rows: int) -> Timed:
    events = hr.read.kafka(servers, TOPIC, schema=EVENTS, stop="latest")
    counted = (
        events.filter(col("event_type") == ysb.VIEW)
        .join(hr.table(campaigns), on="ad_id")
        .with_watermark("event_time", 0)
        .key_by("campaign_id")
        .window(hr.tumbling(ysb.WINDOW_MS))
        .agg(views=hr.count())
    )
    return run_ours(context, counted.write.collect(), rows)


def _theirs(context: Context, servers: str, campaigns: pa.Table, rows: int) -> Timed:
    from pyspark.sql import functions as f

    spark = context.theirs()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    messages = reader.option("maxOffsetsPerTrigger", rows).load()
    schema = ", ".join(f"{name} long" for name in EVENTS)
    parsed = f.from_json(f.col("value").cast("string"), schema)
    events = messages.select(parsed.alias("event")).select("event.*")
    counted = (
        events.where(f.col("event_type") == ysb.VIEW)
        .join(f.broadcast(spark.createDataFrame(campaigns)), "ad_id")
        .withColumn("at", f.timestamp_millis("event_time"))
        .withWatermark("at", "0 seconds")
        .groupBy(f.window("at", f"{ysb.WINDOW_MS // 1000} seconds"), "campaign_id")
        .agg(f.count("*").alias("views"))
    )
    start = f.unix_millis("window.start").alias("window_start")
    return run_theirs(context, counted.select("campaign_id", start, "views"))
