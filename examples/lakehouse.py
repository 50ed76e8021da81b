"""Tables of Delta Lake or Iceberg on both sides of a pipeline, through Spark's own connectors.

    python examples/lakehouse.py delta|iceberg [folder]

Their jars are made for one version of Spark, here 4.0: `pip install headrace 'pyspark==4.0.*'`.
Spark fetches them when it starts. A table of orders is read as a stream, headrace computes windows,
and Spark appends them to another table: exactly once, as both formats promise it to its streams.
"""

import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession

import headrace as hr

PACKAGES = {
    "delta": "io.delta:delta-spark_2.13:4.0.1",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
}
CATALOG = "spark.sql.catalog."
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        f"{CATALOG}spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        f"{CATALOG}lake": "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}lake.type": "hadoop",
    },
}


def session(kind: str, folder: str) -> SparkSession:
    """Spark with the jars of a format."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the PATH's python3
    builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
    builder = builder.config("spark.jars.packages", PACKAGES[kind])
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    builder = builder.config("spark.sql.shuffle.partitions", 2)
    if kind == "iceberg":
        builder = builder.config(f"{CATALOG}lake.warehouse", f"{folder}/warehouse")
    for name, value in SETTINGS[kind].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def orders(spark: SparkSession, count: int) -> DataFrame:
    """An order a second."""
    return spark.range(count).selectExpr(
        "id % 5 AS shop", "timestamp_seconds(id) AS time", "id % 100 AS paid"
    )


def sales(frame: DataFrame) -> hr.Stream:
    """What each shop sold in a minute, of orders that were paid."""
    rows = hr.read.spark(frame, schema={"shop": int, "time": hr.timestamp, "paid": int})
    paid = rows.filter(hr.col("paid") > 0).with_watermark("time", "10s")
    return paid.key_by("shop").window(hr.tumbling("60s")).agg(n=hr.count(), paid=hr.sum("paid"))


def run(spark: SparkSession, kind: str, folder: str, count: int = 3000) -> DataFrame:
    """The windows of all orders, from the table that they were appended to."""
    place = "lake.shops." if kind == "iceberg" else ""
    if place:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shops")
    orders(spark, count).writeTo(f"{place}orders").using(kind).create()
    frame = sales(spark.readStream.table(f"{place}orders")).to_spark(
        checkpoint=f"{folder}/headrace", shards=2, session=spark
    )
    spark.createDataFrame([], frame.schema).writeTo(f"{place}sales").using(kind).create()
    query = (
        frame.writeStream.format(kind)
        .option("checkpointLocation", f"{folder}/spark")
        .trigger(availableNow=True)
        .toTable(f"{place}sales")
    )
    query.awaitTermination()
    return spark.table(f"{place}sales").orderBy("window_start", "shop")


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "delta"
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="headrace-example-")
    spark = session(kind, folder)
    found = run(spark, kind, folder)
    found.show(5)
    print(found.count(), "windows,", found.selectExpr("sum(n)").first()[0], "orders")
    spark.stop()


if __name__ == "__main__":
    main()
