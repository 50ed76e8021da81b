"""The Yahoo streaming benchmark: views of ads per campaign, in windows of ten seconds.

Events have seven 64-bit fields; one in three is a view. A static table gives the campaign of each
ad. Ids are random 62-bit numbers or, where they are named in `uuids`, UUIDs as text: nothing can
be used as an array index. Event time is in milliseconds and spans ten windows.

    >>> from headrace import read, run
    >>> data = make(1000)
    >>> output = pipeline(read.memory(data.events), data.campaigns).write.collect()
    >>> job = run(output)
    >>> same_rows(output.result(), data.expected())
    True
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace import col
from headrace.stream import Stream

from .compare import same_rows

__all__ = [
    "ADS",
    "CAMPAIGNS",
    "SPAN_MS",
    "UUIDS",
    "VIEW",
    "WINDOW_MS",
    "Ysb",
    "make",
    "pipeline",
    "replayed",
    "same_rows",
]

ADS, CAMPAIGNS = 1000, 100
UUIDS = ("user_id", "page_id", "ad_id")  # the columns that may hold UUIDs
VISITORS = 100  # users and pages with UUIDs, as in the original benchmark
EVENT_TYPES, VIEW = 3, 0  # view, click, purchase
AD_TYPES = 5
WINDOW_MS = 10_000
START_MS = 1_700_000_000_000  # a multiple of the window
ROUND_WINDOWS = 10
SPAN_MS = ROUND_WINDOWS * WINDOW_MS  # whatever the number of rows


@dataclass(frozen=True)
class Ysb:
    """Events, the table of campaigns, and what is needed to know the answer."""

    events: pa.Table
    campaigns: pa.Table
    ad_numbers: np.ndarray  # of each event: which of the ads it is
    campaign_ids: Any  # of each campaign number: its id
    campaign_numbers: np.ndarray  # of each ad number: its campaign's number
    windows: int = ROUND_WINDOWS  # that the events span

    @property
    def span_ms(self) -> int:
        """How much event time there is in the events."""
        return self.windows * WINDOW_MS

    def expected(self) -> pa.Table:
        """The answer, by NumPy: campaign_id, window_start and views of every window with views."""
        counts = self._counts_of_round
        found = np.flatnonzero(counts)
        return pa.table(
            {
                "campaign_id": pa.array(self.campaign_ids).take(pa.array(found % CAMPAIGNS)),
                "window_start": START_MS + found // CAMPAIGNS * WINDOW_MS,
                "views": counts[found],
            }
        )

    def closed_windows(self, rows: int) -> int:
        """How many windows are closed after so many rows of the events, replayed in rounds.

        >>> make(100).closed_windows(10), make(100).closed_windows(11)
        (0, 1)
        >>> make(100).closed_windows(201)
        20
        """
        if rows == 0:
            return 0
        rounds, row = divmod(rows - 1, self.events.num_rows)
        time = self.events["event_time"][row].as_py() + rounds * self.span_ms
        return (time - START_MS) // WINDOW_MS

    def is_right(self, got: pa.Table, rows: int, *, ended: bool = False) -> bool:
        """Are these all the windows of so many rows of the events, replayed in rounds, and right?

        Each round moves time on by `span_ms`. Windows that are still open after the last row must
        be missing, unless the stream has ended.

        >>> data = make(1000)
        >>> data.is_right(data.expected(), 1000, ended=True)
        True
        >>> data.is_right(data.expected(), 1000)
        False
        """
        windows = self.closed_windows(rows)
        rounds = -(-windows // self.windows)
        wanted = np.tile(self._counts_of_round, rounds)[: windows * CAMPAIGNS]
        if ended and rows:  # the window that the last row is in has closed, too
            _, rest = divmod(rows - 1, self.events.num_rows)
            of_round = windows % self.windows * CAMPAIGNS
            last = self._counts(rest + 1)[of_round : of_round + CAMPAIGNS]
            wanted = np.concatenate([wanted, last])
        found = self._places(got)
        if found is None or got.num_rows != np.count_nonzero(wanted):
            return False
        if len(np.unique(found)) != len(found) or found.max(initial=-1) >= len(wanted):
            return False
        return bool((got["views"].to_numpy() == wanted[found]).all())

    @cached_property
    def _counts_of_round(self) -> np.ndarray:
        return self._counts(self.events.num_rows)

    def _counts(self, rows: int) -> np.ndarray:
        """Views in the first rows of the events, by window of the round and campaign number."""
        events = self.events.slice(0, rows)
        is_view = events["event_type"].to_numpy() == VIEW
        windows = (events["event_time"].to_numpy()[is_view] - START_MS) // WINDOW_MS
        campaigns = self.campaign_numbers[self.ad_numbers[:rows][is_view]]
        return np.bincount(windows * CAMPAIGNS + campaigns, minlength=self.windows * CAMPAIGNS)

    def _places(self, got: pa.Table) -> np.ndarray | None:
        """Of each result row: window number times campaigns, plus campaign number."""
        import pyarrow.compute as pc

        numbers = pc.index_in(got["campaign_id"], value_set=pa.array(self.campaign_ids))
        since, off = np.divmod(got["window_start"].to_numpy() - START_MS, WINDOW_MS)
        if numbers.null_count or off.any() or since.min(initial=0) < 0:
            return None
        return since * CAMPAIGNS + numbers.to_numpy()


def make(
    rows: int, *, uuids: Sequence[str] = (), seed: int = 1, windows: int = ROUND_WINDOWS
) -> Ysb:
    """Events over some windows of time, and the table of campaigns.

    uuids: the columns among `UUIDS` that hold UUIDs as text; campaigns are like ads.

    >>> make(10).campaigns.schema.types, make(10, uuids=["ad_id"]).campaigns.schema.types
    ([DataType(int64), DataType(int64)], [DataType(string), DataType(string)])
    """
    if rows < 1:
        raise ValueError(f"rows={rows}: there must be at least one")
    if not set(uuids) <= set(UUIDS):
        raise ValueError(f"uuids={uuids}: must be some of {UUIDS}")
    random = np.random.default_rng(seed)
    ids = _uuids if "ad_id" in uuids else _numbers
    ad_ids, campaign_ids = ids(random, ADS), ids(random, CAMPAIGNS)
    campaign_numbers = random.permutation(np.arange(ADS) % CAMPAIGNS)
    ad_numbers = random.integers(0, ADS, rows)
    columns: dict[str, Any] = {
        "user_id": random.integers(0, 1 << 62, rows),
        "page_id": random.integers(0, 1 << 62, rows),
        "ad_id": _pick(ad_ids, ad_numbers),
        "ad_type": random.integers(0, AD_TYPES, rows),
        "event_type": random.integers(0, EVENT_TYPES, rows),
        "event_time": START_MS + np.arange(rows) * (windows * WINDOW_MS) // rows,
        "ip": random.integers(0, 1 << 32, rows),
    }
    for name in ("user_id", "page_id"):
        if name in uuids:
            columns[name] = _pick(_uuids(random, VISITORS), random.integers(0, VISITORS, rows))
    campaign_of_ad = _pick(campaign_ids, campaign_numbers)
    campaigns = pa.table({"ad_id": _column(ad_ids), "campaign_id": _column(campaign_of_ad)})
    events = pa.table([_column(values) for values in columns.values()], names=list(columns))
    return Ysb(events, campaigns, ad_numbers, _column(campaign_ids), campaign_numbers, windows)


def _column(values: Any) -> pa.Array:
    """Numbers as they lie in memory. (`pa.array` would load pandas to look at them.)"""
    if isinstance(values, pa.Array):
        return values
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _pick(ids: Any, numbers: np.ndarray) -> Any:
    """The ids with these numbers. (Arrow loads all of its functions for one `take`.)"""
    return ids[numbers] if isinstance(ids, np.ndarray) else ids.take(_column(numbers))


def _numbers(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(1, 1 << 62, count)


def _uuids(random: np.random.Generator, count: int) -> pa.Array:
    return pa.array([str(uuid.UUID(bytes=random.bytes(16), version=4)) for _ in range(count)])


def views(events: Stream, campaigns: pa.Table) -> Stream:
    """The part of the query without state: views, with their campaign.

    >>> views(hr.read.memory(make(10).events), make(10).campaigns)
    Stream(ad_id: int64, event_time: int64, campaign_id: int64)
    """
    return (
        events.filter(col("event_type") == VIEW, name="views")
        .select("ad_id", "event_time")
        .join(hr.table(campaigns, name="campaigns"), on="ad_id")
    )


def pipeline(events: Stream, campaigns: pa.Table) -> Stream:
    """The query: filter, project, static join, tumbling count per campaign.

    >>> pipeline(hr.read.memory(make(10).events), make(10).campaigns)
    Stream(campaign_id: int64, window_start: int64, views: int64; key campaign_id; time ...)
    """
    return (
        views(events, campaigns)
        .with_watermark("event_time", 0)
        .key_by("campaign_id")
        .window(hr.tumbling(WINDOW_MS))
        .agg(views=hr.count(), name="count")
    )


def replayed(data: Ysb, *, rows: int | None = None, rate: float | None = None) -> Stream:
    """The events, round after round without end (or so many rows), at full speed or at a rate.

    >>> replayed(make(10), rows=25).schema.names[:2]
    ('user_id', 'page_id')
    """
    return hr.read.replay(
        data.events, time="event_time", span=data.span_ms, rows=rows, rate=rate, name="events"
    )
