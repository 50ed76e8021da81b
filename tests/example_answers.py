"""What the examples of BigBench and of fraud must find, by plain loops over their rows."""

import importlib.util
import math
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@cache
def example(name):
    """The module of an example; its rows are made once."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def views_before_purchase():
    """Of query 3: {item: how often}."""
    bigbench = example("bigbench")
    seen, found = defaultdict(list), Counter()
    for click in bigbench.clicks.to_pylist():
        views = seen[click["user"]]
        if click["user"] is None:
            continue
        if click["sale"] is None:
            views.append(click)
        elif click["item"] == bigbench.BOUGHT:
            near = [v["item"] for v in views[-5:] if click["at"] - v["at"] <= bigbench.TEN_DAYS]
            found.update(
                item for item in near if bigbench.categories[item] in bigbench.VIEWED_CATEGORIES
            )
    return dict(found)


def falling_categories():
    """Of query 15: {category: slope}."""
    bigbench = example("bigbench")
    paid = defaultdict(Counter)
    for sale in bigbench.sales.to_pylist():
        day = sale["at"] // bigbench.DAY
        if sale["store"] == bigbench.STORE and day < bigbench.YEAR:
            paid[int(bigbench.categories[sale["item"]])][day] += sale["paid"]
    slopes = {
        category: float(np.polyfit(list(days), list(days.values()), 1)[0])
        for category, days in paid.items()
        if len(days) > 1
    }
    return {category: slope for category, slope in slopes.items() if slope <= 0}


def alerts():
    """Of the calls: (caller, start, seconds since the last call, kilometres), in order."""
    fraud = example("fraud")
    last, found = {}, []
    for line in fraud.records["line"].to_pylist():
        caller, _, start, seconds, *place = line.split(";")
        if int(seconds) == 0:
            continue
        here = int(start), [math.radians(float(angle)) for angle in place]
        before, last[caller] = last.get(caller), here
        if before is None:
            continue
        (then, (a, x)), (now, (b, y)) = before, here
        cosine = math.sin(a) * math.sin(b) + math.cos(a) * math.cos(b) * math.cos(y - x)
        far = fraud.EARTH_KM * math.acos(min(1.0, cosine))
        if far > fraud.FAR_KM and now - then < fraud.SOON_SECONDS:
            found.append((int(caller), now, now - then, pytest.approx(far, rel=1e-6)))
    return found


def assert_bigbench_is_right():
    """After a run of both queries."""
    bigbench = example("bigbench")
    viewed, falling = bigbench.viewed.result().to_pylist(), bigbench.falling.result().to_pylist()
    expected = views_before_purchase()
    assert expected and {row["viewed"]: row["views"] for row in viewed} == expected
    slopes = falling_categories()
    assert 0 < len(slopes) < bigbench.CATEGORIES
    assert {row["category"]: row["slope"] for row in falling} == pytest.approx(slopes)


def found_alerts():
    """After a run of the calls, what was found."""
    result = example("fraud").alerts.result()
    return [tuple(row.values()) for row in result.to_pylist()]
