"""Views per ad campaign, in windows of ten seconds: the pipeline of the README."""

import headrace as hr
from headrace import col

campaigns = hr.table({"ad": [1, 2, 3], "campaign": ["Tea", "Bikes", "Tea"]})


def event(index):
    """Event number `index`: one of three ads and three kinds, every 50 ms of event time."""
    return index * 50, index % 3 + 1, index // 3 % 3


views = (
    hr.read.generate(event, output=["ms", "ad", "kind"], rows=1_000)
    .with_columns(time=hr.from_millis(col("ms")))
    .filter(col("kind") == 0)
    .join(campaigns, on="ad")
    .with_watermark("time", "1s")
    .key_by("campaign")
    .window(hr.tumbling("10s"))
    .agg(views=hr.count(), last=hr.max("time"))
)

report = views.write.console(limit=4)

if __name__ == "__main__":
    hr.run(report)
