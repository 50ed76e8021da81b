"""DataFrames before and after a pipeline: Spark reads and aggregates, headrace computes between.

    python examples/spark_frames.py [folder]

A streaming DataFrame of sensor readings goes through compiled Python functions and windows of
headrace, and comes back as a streaming DataFrame, which SQL and Spark's own Parquet sink take on.
"""

import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession

import headrace as hr


def readings(spark: SparkSession, folder: str) -> DataFrame:
    """Files of readings, as any source of Spark gives them: here JSON, a file for each batch."""
    for part in range(4):
        made = spark.range(part * 5000, part * 5000 + 5000).selectExpr(
            "id % 20 AS sensor", "timestamp_millis(id * 100) AS time", "id * 7919 % 300 AS raw"
        )
        made.coalesce(1).write.mode("append").json(f"{folder}/readings")
    stream = spark.readStream.schema("sensor BIGINT, time TIMESTAMP, raw BIGINT")
    return stream.option("maxFilesPerTrigger", 1).json(f"{folder}/readings")


def celsius(raw):
    """A sensor's number as a temperature; compiled."""
    return raw / 10 - 5 if raw < 200 else 5 + raw / 20


def pipeline(frame: DataFrame) -> hr.Stream:
    rows = hr.read.spark(frame, schema={"sensor": int, "time": hr.timestamp, "raw": int})
    degrees = rows.map(celsius, output="celsius", carry=["sensor", "time"])
    windows = degrees.with_watermark("time", "10s").key_by("sensor").window(hr.tumbling("60s"))
    return windows.agg(readings=hr.count(), warmest=hr.max("celsius"))


def run(spark: SparkSession, folder: str) -> DataFrame:
    """The warm windows, when all files were read."""
    frame = pipeline(readings(spark, folder)).to_spark(checkpoint=f"{folder}/headrace", shards=2)
    frame.createOrReplaceTempView("windows")
    warm = frame.sparkSession.sql("SELECT * FROM windows WHERE warmest > 19.5")
    query = (
        warm.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/spark")
        .trigger(availableNow=True)
        .start(f"{folder}/warm")
    )
    query.awaitTermination()
    return spark.read.parquet(f"{folder}/warm").orderBy("window_start", "sensor")


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="headrace-example-")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the PATH's python3
    spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    run(spark, folder).show(5)
    spark.stop()


if __name__ == "__main__":
    main()
