"""Linear Road in plain Python, second by second, from its definition: the reference of the query.

Nothing here is shared with `headrace.workloads.linear_road`, not even its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Row = dict[str, Any]


def accidents(reports: list[Row]) -> set[tuple[int, int, int, int, int]]:
    """(xway, dir, lane, pos, when): two cars or more have stood there for the two minutes before,
    as seen every half a minute."""
    seen = defaultdict(lambda: defaultdict(list))
    for row in reports:
        if row["type"] == 0 and row["lane"] in (1, 2, 3) and row["speed"] == 0:
            place = (row["xway"], row["dir"], row["lane"], row["pos"])
            seen[place][row["vid"]].append(row["time"])
    end = max((row["time"] for row in reports), default=0)
    found = set()
    for when in range(0, end + 121, 30):
        for place, cars in seen.items():
            standing = [
                times
                for times in cars.values()
                if sum(when - 120 <= time < when for time in times) >= 4
            ]
            if len(standing) >= 2:
                found.add((*place, when))
    return found


def tolls(reports: list[Row]) -> list[Row]:
    """A row for each segment and minute with reports."""
    speeds = defaultdict(lambda: defaultdict(list))  # of the cars of a segment and minute
    for row in reports:
        if row["type"] == 0:
            minute = row["time"] // 60
            segment = (row["xway"], row["dir"], row["pos"] // 5280)
            speeds[segment, minute][row["vid"]].append(row["speed"])
    near = defaultdict(set)  # when there was an accident ahead, for each segment
    for xway, way, _, pos, when in accidents(reports):
        for ahead in range(5):
            near[xway, way, pos // 5280 + (ahead if way else -ahead)].add(when)
    averages = defaultdict(list)
    made = []
    for (segment, minute), cars in sorted(speeds.items(), key=lambda each: each[0][1]):
        means = [sum(given) // len(given) for given in cars.values()]
        averages[segment].append(sum(means) // len(means))
        latest = averages[segment][-5:]
        speed, count = sum(latest) // len(latest), sum(map(len, cars.values()))
        until = minute * 60 + 60
        found = max((when for when in near[segment] if until - 30 <= when <= until), default=None)
        toll = 2 * (count - 50) ** 2 if speed < 40 and count > 50 and found is None else 0
        made.append(
            {
                **dict(zip(("xway", "dir", "seg"), segment, strict=True)),
                "until": until,
                "speed": speed,
                "reports": count,
                "toll": toll,
                "found": found,
            }
        )
    return made
