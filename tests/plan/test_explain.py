"""Plans as text."""

from headrace.expr import col, count
from headrace.plan.explain import render
from headrace.stream import example
from headrace.time import tumbling


def without_sites(text):
    return [line.partition("  @ ")[0] for line in text.splitlines()]


def test_a_chain():
    made = example(t=int, user=str).with_watermark("t", 5).filter(col("t") > 1, name="late ones")
    assert without_sites(render([made.node])) == [
        "late ones (filter) [SL] (t > 1)  -> t: int64, user: string | time t",
        "└─ watermark-1 [SL] t - 5  -> t: int64, user: string | time t",
        "   └─ example (source) [SL] memory, 0 rows  -> t: int64, user: string",
    ]


def test_the_users_line():
    made = example(a=int)
    made = made.rename(a="b")
    assert "@ test_explain.py:" in render([made.node]).splitlines()[0]


def test_classes():
    rows = example(t=int, user=str).with_watermark("t", 5)
    keyed = rows.key_by("user").window(tumbling(9)).agg(n=count())
    alone = rows.window(tumbling(9)).agg(n=count())
    assert render([keyed.node]).startswith("window-1 [PS] n=count() by user in tumbling(9)")
    assert render([alone.node]).startswith("window-1 [SF] n=count() by nothing in tumbling(9)")


def test_branches_are_shown_once():
    shared = example(a=int).filter(col("a") > 1)
    left, right = shared.select("a"), shared.with_columns(b=col("a"))
    assert without_sites(render([left.node, right.node])) == [
        "project-1 [SL] a  -> a: int64",
        "└─ filter-1 (shared) [SL] (a > 1)  -> a: int64",
        "   └─ example (source) [SL] memory, 0 rows  -> a: int64",
        "project-2 [SL] a, b=a  -> a: int64, b: int64",
        "└─ filter-1 (shown above)",
    ]


def test_several_inputs():
    made = example(a=int).union(example(a=int))
    lines = without_sites(render([made.node]))
    assert [line[:3] for line in lines] == ["uni", "├─ ", "└─ "]


def test_a_stream_explains_how_it_will_run():
    """The plan as written, rewritten, and its stages, exchanges and kernels."""
    made = example(t=int, user=str, more=int).filter(col("t") > 1).with_watermark("t", 5)
    said = made.key_by("user").window(tumbling(9)).agg(n=count()).explain()
    written, _, rest = said.partition("Rewritten")
    rewritten, _, stages = rest.partition("Stages")
    assert "watermark_1 (watermark)" in written and "more: int64" in written
    assert "watermark t - 5" in rewritten and "more: int64" not in rewritten
    assert "stage 0" in stages and "stage 1" in stages
    assert "kernel  filter_1 -> window_1.on_time -> window_1.partial" in stages
    assert "out     window_1.exchange: by user" in stages
