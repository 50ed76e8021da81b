"""The pipeline of the README over replayed rows: a computed event time, and a text as the key.

Rows are numbers: a time in milliseconds, one of three ads and one of three kinds. They span ten
windows, whatever their number. (The README has a row in 50 ms, and its functions make them.)

    >>> from headrace import run
    >>> data = make(1000)
    >>> output = pipeline(data.replayed(rounds=3)).write.collect()
    >>> job = run(output)
    >>> data.is_right(output.result(), rounds=3)
    True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.stream import Stream

from .compare import same_rows

CAMPAIGNS = {1: "Tea", 2: "Bikes", 3: "Tea"}  # by ad
VIEW = 0
WINDOW_MS = 10_000
ROUND_WINDOWS = 10
SPAN_MS = ROUND_WINDOWS * WINDOW_MS


@dataclass(frozen=True)
class Events:
    """Rows (ms, ad, kind) in the order of their times."""

    rows: pa.Table

    def replayed(self, rounds: int) -> Stream:
        """The rows, round after round."""
        rows = rounds * self.rows.num_rows
        return hr.read.replay(self.rows, time="ms", span=SPAN_MS, rows=rows, name="events")

    def expected(self, rounds: int) -> pa.Table:
        """The answer, by NumPy: campaign, window_start, views and last of all windows."""
        ms, ad, kind = (self.rows[name].to_numpy() for name in ("ms", "ad", "kind"))
        found = []
        for campaign in sorted(set(CAMPAIGNS.values())):
            ads = [ad for ad, name in CAMPAIGNS.items() if name == campaign]
            times = ms[(kind == VIEW) & np.isin(ad, ads)]
            windows, first, views = np.unique(
                times // WINDOW_MS, return_index=True, return_counts=True
            )
            lasts = times[first + views - 1]  # times are in order
            for number in range(rounds):
                starts, moved = windows * WINDOW_MS + number * SPAN_MS, lasts + number * SPAN_MS
                found.append(_results(campaign, starts, views, moved))
        return pa.concat_tables(found)

    def is_right(self, got: pa.Table, rounds: int) -> bool:
        """Is this the answer?"""
        return same_rows(got, self.expected(rounds))


def _results(campaign: str, starts: np.ndarray, views: np.ndarray, lasts: np.ndarray) -> pa.Table:
    microseconds = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "campaign": [campaign] * len(starts),
            "window_start": pa.array(starts * 1000).cast(microseconds),
            "views": views,
            "last": pa.array(lasts * 1000).cast(microseconds),
        }
    )


def make(rows: int, *, seed: int = 1) -> Events:
    """Rows with random ads and kinds.

    >>> make(10).rows.schema.names
    ['ms', 'ad', 'kind']
    """
    random = np.random.default_rng(seed)
    columns = {
        "ms": np.arange(rows) * SPAN_MS // rows,
        "ad": random.integers(1, len(CAMPAIGNS) + 1, rows),
        "kind": random.integers(0, 3, rows),
    }
    return Events(pa.table(columns))


def pipeline(events: Stream) -> Stream:
    """The query: computed time, filter, join that gives a text, window, count and maximum.

    >>> pipeline(make(10).replayed(rounds=1)).schema.names
    ('campaign', 'window_start', 'views', 'last')
    """
    campaigns = hr.table({"ad": list(CAMPAIGNS), "campaign": list(CAMPAIGNS.values())})
    return (
        events.with_columns(time=hr.from_millis(col("ms")))
        .filter(col("kind") == VIEW)
        .join(campaigns, on="ad")
        .with_watermark("time", "1s")
        .key_by("campaign")
        .window(hr.tumbling("10s"))
        .agg(views=hr.count(), last=hr.max("time"))
    )
