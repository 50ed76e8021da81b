"""Owners: where places are given, where rows come together."""

import headrace as hr
from headrace import col
from headrace.asked import planned
from headrace.plan.graph import walk
from headrace.plan.nodes import PLACE, Exchange, Received, Sink, WindowAggregate


def totals(state, n):
    state.total += n
    yield state.total


def stages(*streams):
    return planned([stream.write.collect() for stream in streams]).owned_stages()


def keyed():
    return hr.read.memory({"k": [1], "t": [1], "n": [1]}).key_by("k")


def test_a_state_by_key_is_owned_up_to_its_sink():
    first, second = stages(
        keyed().process(totals, state={"total": int}, output=["m"]).filter(col("m") > 1)
    )
    (exchange,), (sink,) = first.roots, second.roots
    assert first.is_replicated and not second.is_replicated and second.is_owned
    assert isinstance(exchange, Exchange) and exchange.owned and PLACE in exchange.schema
    assert isinstance(sink, Sink) and PLACE in sink.input.schema and PLACE not in sink.schema


def test_a_stage_of_owners_ends_behind_a_window():
    rows = keyed().with_watermark("t", 1)
    first, second, third = stages(rows.window(hr.tumbling(5)).agg(n=hr.count()).select("n"))
    (gathered,) = second.roots
    assert second.is_owned and not third.is_owned and not third.is_replicated
    assert gathered.order == ("window_start", "k") and not gathered.owned
    assert PLACE not in first.roots[0].schema  # keys decide
    assert [type(node) for node in third.inputs] == [Received]


def test_a_stage_of_owners_ends_in_front_of_plain_python_and_late_tests():
    timed = hr.read.memory({"k": [1], "t": [1], "n": [1]}).with_watermark("t", 1).key_by("k")
    states = timed.process(totals, state={"total": int}, output=["t"])
    python = states.map_batches(lambda rows: rows, schema={"k": int, "t": int})
    windows = states.window(hr.tumbling(5)).agg(n=hr.count())
    for stream in (python, windows, windows.late()):
        owned = [stage for stage in stages(stream) if stage.is_owned]
        gathered = owned[0].roots[0]
        assert isinstance(gathered, Exchange) and not gathered.order and not gathered.owned
        in_order = stream is not windows  # which need the order of each key, and no more
        assert PLACE not in gathered.schema and (PLACE in gathered.input.schema) == in_order


def test_windows_are_sorted_where_somebody_can_tell():
    timed = keyed().with_watermark("t", 1).window(hr.tumbling(5))

    def is_sorted(stream, **options):
        plan = planned([stream.write.collect()], **options).optimized
        return [node.sorted for node in walk(plan) if isinstance(node, WindowAggregate)]

    counted = timed.agg(n=hr.count(), x=hr.sum("n"))
    again = counted.key_by("n").window(hr.tumbling(10))
    assert is_sorted(counted) == [True]
    assert is_sorted(again.agg(m=hr.count(), least=hr.min("x"))) == [False, True]
    assert is_sorted(again.agg(m=hr.first("x"))) == [True, True]
    assert is_sorted(again.agg(m=hr.mean(col("x") / 2))) == [True, True]
    states = counted.process(totals, state={"total": int}, output=["m"])
    assert is_sorted(states) == [True]  # of which a sink sees all in one order
    assert is_sorted(states, ordering="key") == [False]  # each key is once in a window


def test_one_owner_without_a_key():
    rows = hr.read.memory({"t": [1]}).with_watermark("t", 1)
    assert not any(s.is_owned for s in stages(rows.window(hr.tumbling(5)).agg(n=hr.count())))
