"""Pipelines for Spark: small ones of every kind, over rows that come in several channels."""

from __future__ import annotations

import random

import pyarrow as pa

import headrace as hr
from headrace import col

SPAN = 1000  # of event time, from the first row of a channel to the last


def tables(rows: int, channels: int, *, disorder: int, seed: int = 1) -> list[pa.Table]:
    """Rows out of order by at most `disorder`, with strings short and long, and nulls."""
    chance = random.Random(seed)
    made = []
    for _ in range(channels):
        at = [k * SPAN // rows - chance.randrange(disorder + 1) for k in range(rows)]
        users = [chance.randrange(20) for _ in range(rows)]
        names = [user(number) for number in users]
        values = [None if chance.random() < 0.1 else chance.randrange(-50, 50) for _ in at]
        columns = {"user": names, "at": at, "value": pa.array(values, pa.int64())}
        made.append(pa.table(columns))
    return made


def user(number: int) -> str:
    return f"user {number}" if number % 2 else f"a user with a long name, number {number}"


CITIES = {"user": [user(n) for n in range(18)], "city": [f"city {n % 5}" for n in range(18)]}


def running(state, value):
    """How many values of a key there were, and their sum; a row for every second one."""
    if value is not None:
        state.count += 1
        state.total += value
        if state.count % 2 == 0:
            yield state.count, state.total


def halves(value):
    while value > 1:
        value //= 2
        yield value


def clicks(source: hr.Stream) -> hr.Stream:
    return source.join(hr.table(CITIES), on="user").with_watermark("at", 30)


def stateless(source: hr.Stream) -> hr.Stream:
    kept = source.filter(col("value") > 10).with_columns(double=col("value") * 2)
    return kept.select("user", "double", "at")


def exploded(source: hr.Stream) -> hr.Stream:
    filled = source.filter(~col("value").is_null()).select("user", value=col("value").fill_null(0))
    return filled.flat_map(halves, output="half", columns=["value"])


def counted(source: hr.Stream) -> hr.Stream:
    """Merges exactly: in two halves around the exchange."""
    windows = clicks(source).key_by("city").window(hr.tumbling(50))
    return windows.agg(n=hr.count(), total=hr.sum("value"), last=hr.max("at"))


def averaged(source: hr.Stream) -> hr.Stream:
    """Does not: rows cross."""
    windows = clicks(source).key_by("user").window(hr.tumbling(100))
    return windows.agg(mean=hr.mean("value"), city=hr.max("city"))


def slid(source: hr.Stream) -> hr.Stream:
    """Windows that share panes, in halves."""
    windows = clicks(source).key_by("city").window(hr.sliding(70, every=30))
    return windows.agg(n=hr.count(), last=hr.last("user"), mean=hr.mean("value"))


def visited(source: hr.Stream) -> hr.Stream:
    """Sessions, of records that end one by one."""
    windows = clicks(source).key_by("user").window(hr.session(12))
    return windows.agg(n=hr.count(), total=hr.sum("value"), city=hr.first("city"))


def processed(source: hr.Stream) -> hr.Stream:
    state = {"count": 0, "total": 0}
    return source.key_by("user").process(
        running, state=state, output=["count", "total"], columns=["value"]
    )


def recounted(source: hr.Stream) -> hr.Stream:
    """Two exchanges: users in windows, then windows of cities by how many users they have."""
    users = clicks(source).key_by("user", "city").window(hr.tumbling(50)).agg(n=hr.count())
    return users.key_by("city").window(hr.tumbling(200)).agg(users=hr.count(), clicks=hr.sum("n"))
