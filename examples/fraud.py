"""Telephones that are in two places at once: fraud in a stream of call records (Ordered, §1).

    python examples/fraud.py                                    # on Spark
    headrace run examples/fraud.py --engine node --workers 2    # on threads of one process

Two calls of one telephone that follow each other are compared, so the calls of each must come in
order. Alerts come in the order of the calls on threads; on Spark those of each telephone do.
"""

import math

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col

FAR_KM, SOON_SECONDS = 100.0, 600
EARTH_KM = 6371.0


def made_calls(calls=4_000, callers=100, cloned=0.004):
    """Call records as lines of text, by time: callers wander about, and some cards are cloned."""
    random = np.random.default_rng(7)
    rate = random.lognormal(0, 1, callers)
    caller = random.choice(callers, calls, p=rate / rate.sum())
    start = np.sort(random.integers(0, 86_400, calls))
    seconds = np.maximum(0, random.lognormal(4, 1.2, calls) - 5).astype(int)
    home = random.uniform((45, 7), (47, 12), (callers, 2))
    place = home[caller] + random.normal(0, 0.002, (calls, 2))
    place[random.random(calls) < cloned] += (2.5, 1.5)
    lines = [
        f"{a};{b};{s};{d};{x:.5f};{y:.5f}"
        for a, b, s, d, (x, y) in zip(
            caller, random.integers(0, callers, calls), start, seconds, place, strict=True
        )
    ]
    return pa.table({"line": lines})


def field(number):
    """A field of a record."""
    return col("line").str.split_part(";", number)


class Seen:
    """Where a telephone was last."""

    calls: int
    start: int
    latitude: float
    longitude: float


def kilometres(latitude, longitude, other_latitude, other_longitude):
    """On the surface of the earth."""
    a, b = math.radians(latitude), math.radians(other_latitude)
    turn = math.radians(other_longitude - longitude)
    chord = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(turn / 2) ** 2
    return 2 * EARTH_KM * math.asin(math.sqrt(chord))


def travelled(state, start, latitude, longitude):
    """An alert where a telephone has come too far since its last call."""
    seconds = start - state.start
    far = kilometres(state.latitude, state.longitude, latitude, longitude)
    known = state.calls > 0
    state.calls += 1
    state.start, state.latitude, state.longitude = start, latitude, longitude
    if known and far > FAR_KM and seconds < SOON_SECONDS:
        yield start, seconds, far


def alerts_of(records):
    """The pipeline: parse, leave out what was not answered, compare."""
    calls = records.select(
        caller=field(0).cast(int),
        start=field(2).cast(int),
        seconds=field(3).cast(int),
        latitude=field(4).cast(float),
        longitude=field(5).cast(float),
    ).filter(col("seconds") > 0)
    return calls.key_by("caller").process(
        travelled,
        state=Seen,
        output=["start", "since", "kilometres"],
        columns=["start", "latitude", "longitude"],
    )


records = made_calls()
alerts = alerts_of(hr.read.memory(records, name="records")).write.collect()

if __name__ == "__main__":
    hr.run(alerts)
    for alert in alerts.result().to_pylist():
        far, since = alert["kilometres"], alert["since"]
        print(f"telephone {alert['caller']}: {far:.0f} km in {since} s, at {alert['start']} s")
