"""Queries 3 and 15 of TPCx-BB (BigBench) as streams, over rows that are made here.

    python examples/bigbench.py                                    # on Spark
    headrace run examples/bigbench.py --engine node --workers 2    # on threads of one process

Query 3: which items users have viewed, at most five and in ten days, before they bought a certain
one. Query 15: in which categories the sales of a shop have not risen, day by day, in a year.
"""

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col

ITEMS, CATEGORIES = 18_000, 10
HOT_ITEMS = np.arange(10_000, 10_004)  # that many clicks and sales are about
BOUGHT, VIEWED_CATEGORIES = 10_001, (2, 3)
DAY, TEN_DAYS = 86_400, 864_000  # seconds
STORES, STORE, YEAR = 12, 10, 365

random = np.random.default_rng(15)
categories = random.integers(1, CATEGORIES + 1, ITEMS)
categories[HOT_ITEMS] = [2, 3, 2, 4]
items = hr.table({"item": np.arange(ITEMS), "category": categories})


def some_items(count):
    """Items of clicks and sales: one in five is a hot one."""
    hot = random.random(count) < 0.2
    return np.where(hot, random.choice(HOT_ITEMS, count), random.integers(0, ITEMS, count))


def made_clicks(visits=800, users=20, days=60):
    """Clicks in the order of their time: visitors view items, and one in three buys some."""
    size = random.integers(3, 20, visits)
    buys = np.repeat(random.random(visits) < 0.3, size)
    clicks = len(buys)
    sold = buys & (random.random(clicks) < 0.4)
    begun = np.repeat(np.sort(random.integers(0, days, visits)), size) * DAY
    at = begun + random.integers(0, DAY, clicks)
    order = np.argsort(at, kind="stable")
    user = np.repeat(random.integers(0, users, visits), size)
    unknown = np.repeat(random.random(visits) < 0.2, size) & ~buys
    columns = {
        "at": pa.array(at[order]),
        "user": pa.array(user[order], mask=unknown[order]),
        "item": pa.array(some_items(clicks)),
        "sale": pa.array(np.arange(clicks), mask=~sold[order]),
    }
    return pa.table(columns)


def made_sales(tickets=6_000, days=400):
    """Sales in the order of their time, in cents."""
    at = np.sort(random.integers(0, days * DAY, tickets))
    stores = random.choice([STORE, *range(STORES)], tickets)
    paid = random.integers(100, 30_000, tickets)
    return pa.table({"at": at, "item": some_items(tickets), "store": stores, "paid": paid})


class Viewed:
    """The last five items that a user has viewed, and when."""

    item_1: int
    item_2: int
    item_3: int
    item_4: int
    item_5: int
    at_1: int = -TEN_DAYS - 1
    at_2: int = -TEN_DAYS - 1
    at_3: int = -TEN_DAYS - 1
    at_4: int = -TEN_DAYS - 1
    at_5: int = -TEN_DAYS - 1


def viewed_before(state, at, item, sale):
    """Where the item is bought: what its user has viewed before."""
    if sale is None:
        state.item_5, state.at_5 = state.item_4, state.at_4
        state.item_4, state.at_4 = state.item_3, state.at_3
        state.item_3, state.at_3 = state.item_2, state.at_2
        state.item_2, state.at_2 = state.item_1, state.at_1
        state.item_1, state.at_1 = item, at
    elif item == BOUGHT:
        since = at - TEN_DAYS
        if state.at_1 >= since:
            yield state.item_1
        if state.at_2 >= since:
            yield state.item_2
        if state.at_3 >= since:
            yield state.item_3
        if state.at_4 >= since:
            yield state.item_4
        if state.at_5 >= since:
            yield state.item_5


def query_3(clicks):
    """How often each item of some categories was viewed before the purchase."""
    first, second = VIEWED_CATEGORIES
    viewed = (
        clicks.filter(col("user").is_not_null())
        .key_by("user")
        .process(viewed_before, state=Viewed, output=["viewed"], columns=["at", "item", "sale"])
        .join(items, on={"viewed": "item"})
        .filter((col("category") == first) | (col("category") == second))
    )
    return viewed.key_by("viewed").agg(views=hr.count())


def query_15(sales):
    """Categories whose sales by day have a slope (least squares) that is not above 0."""
    days = (
        sales.filter((col("store") == STORE) & (col("at") < YEAR * DAY))
        .join(items, on="item")
        .with_watermark("at", 0)
        .key_by("category")
        .window(hr.tumbling(DAY))
        .agg(paid=hr.sum("paid"))
        .with_columns(day=col("window_start") // DAY)
    )
    sums = days.key_by("category").agg(
        n=hr.count(),
        x=hr.sum("day"),
        y=hr.sum("paid"),
        xy=hr.sum(col("day") * col("paid")),
        xx=hr.sum(col("day") * col("day")),
    )
    n, x, y = col("n"), col("x"), col("y")
    slopes = sums.filter(n > 1).with_columns(
        slope=(n * col("xy") - x * y) / (n * col("xx") - x * x)
    )
    return slopes.filter(col("slope") <= 0).select("category", "slope")


clicks, sales = made_clicks(), made_sales()
viewed = query_3(hr.read.memory(clicks, name="clicks")).write.collect()
falling = query_15(hr.read.memory(sales, name="sales")).write.collect()

if __name__ == "__main__":
    hr.run(viewed, falling)
    top = sorted(viewed.result().to_pylist(), key=lambda row: (-row["views"], row["viewed"]))
    for row in top[:10]:
        print(f"item {row['viewed']:5}: viewed {row['views']:4} times before {BOUGHT} was bought")
    for row in falling.result().to_pylist():
        print(f"category {row['category']}: {row['slope'] / 100:.2f} a day")
