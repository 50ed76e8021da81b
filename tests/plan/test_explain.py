"""Plans as text."""

from headrace.expr import col, count
from headrace.plan.explain import render
from headrace.stream import example
from headrace.time import tumbling


def without_sites(text):
    return [line.partition("  @ ")[0] for line in text.splitlines()]


def test_a_chain():
    made = example(t=int, user=str).with_watermark("t", 5).filter(col("t") > 1, name="late ones")
    assert without_sites(made.explain()) == [
        "late ones (filter) [SL] (t > 1)  -> t: int64, user: string | time t",
        "└─ watermark-1 [SL] t - 5  -> t: int64, user: string | time t",
        "   └─ example (source) [SL] memory, 0 rows  -> t: int64, user: string",
    ]


def test_the_users_line():
    made = example(a=int)
    made = made.rename(a="b")
    assert "@ test_explain.py:" in made.explain().splitlines()[0]


def test_classes():
    rows = example(t=int, user=str).with_watermark("t", 5)
    keyed = rows.key_by("user").window(tumbling(9)).agg(n=count())
    alone = rows.window(tumbling(9)).agg(n=count())
    assert keyed.explain().startswith("window-1 [PS] n=count() by user in tumbling(9)")
    assert alone.explain().startswith("window-1 [SF] n=count() by nothing in tumbling(9)")


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
    lines = without_sites(made.explain())
    assert [line[:3] for line in lines] == ["uni", "├─ ", "└─ "]
