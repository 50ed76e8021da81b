"""Nodes that are built from what users write: schemas, keys, event time."""

import dataclasses
import datetime as dt
import warnings

import pyarrow as pa
import pytest

from headrace.expr import col, count, lit, max_, mean, min_, sum_, udf, when
from headrace.plan.build import PlainPythonWarning, source
from headrace.plan.errors import PipelineError
from headrace.plan.expressions import Call, Cast, Column
from headrace.plan.functions import StateSpec
from headrace.plan.nodes import FlatMap, Process, Project, TableJoin, WindowAggregate
from headrace.plan.schema import Field, Schema
from headrace.plan.table import Table
from headrace.plan.types import float64, int8, int32, int64, optional, string, timestamp
from headrace.plan.windows.tumbling import Tumbling
from headrace.stream import Stream, example
from headrace.time import duration, tumbling


def events():
    return example(user=str, price=float, n=int, at=dt.datetime)


def timed():
    return events().with_watermark("at", "5s")


def ads(**columns):
    return Table("ads", Schema.of(columns), lambda: pa.table({}))


def schema(**columns):
    return Schema.of(columns)


# ---------------------------------------------------------------- sources and projections


class Broken:
    def schema(self):
        return schema(a=int)


def test_source_needs_a_connector():
    with pytest.raises(PipelineError, match="is not a source connector"):
        source(Broken())


def test_source_refuses_hidden_columns():
    with pytest.raises(PipelineError, match="'headrace:watermark' is a reserved name"):
        example(**{"headrace:watermark": int})


def test_streams_are_immutable():
    stream = events()
    with pytest.raises(AttributeError):
        stream.node = None
    with pytest.raises(AttributeError):
        stream.more = 1
    assert stream.filter(col("n") > 1) is not stream


def test_every_operator_keeps_its_name_and_the_users_line():
    made = (
        events()
        .filter(col("n") > 1, name="big")  #
        .select("user", "n")
    )
    assert (made.node.name, made.node.input.name) == ("", "big")
    assert made.node.input.site.text == '.filter(col("n") > 1, name="big")  #'
    assert made.node.site.text == '.select("user", "n")'


def test_select():
    made = events().select("n", col("user"), {"name": col("price")}, twice=col("n") * 2, one=1)
    assert made.schema == schema(n=int, user=str, name=float, twice=int, one=int)


def test_with_columns_replaces_in_place_and_adds_behind():
    made = events().with_columns({"name": lit("x")}, n=col("n") / 2)
    assert made.schema == schema(user=str, price=float, n=float, at=timestamp, name=str)


def test_drop_and_rename():
    assert events().drop("user", "at").schema == schema(price=float, n=int)
    swapped = events().rename({"price": "n", "n": "price"})
    assert swapped.schema.names == ("user", "n", "price", "at")


def test_null_types():
    made = example(a=optional(int)).select(
        sum=col("a") + 1, filled=col("a").fill_null(0), case=when(col("a") > 1).then(1.5)
    )
    assert made.schema == schema(sum=optional(int), filled=int, case=optional(float))


# ---------------------------------------------------------------- keys and event time


def key_and_time(stream):
    return stream.node.key, stream.node.time


KEYED = {
    "filter": (lambda s: s.filter(col("n") > 1), ("user",), "at"),
    "more columns": (lambda s: s.with_columns(x=col("n")), ("user",), "at"),
    "other columns changed": (lambda s: s.with_columns(n=col("n") + 1), ("user",), "at"),
    "key changed": (lambda s: s.with_columns(user=col("user").lower()), (), "at"),
    "key put in its own place": (lambda s: s.with_columns(user=col("user")), ("user",), "at"),
    "time changed": (lambda s: s.with_columns(at=col("at").cast(int)), ("user",), None),
    "kept": (lambda s: s.select("at", "user"), ("user",), "at"),
    "key dropped": (lambda s: s.drop("user"), (), "at"),
    "time dropped": (lambda s: s.drop("at"), ("user",), None),
    "renamed": (lambda s: s.rename(user="who", at="when"), ("who",), "when"),
    "copied": (lambda s: s.select("user", "at", u=col("user"), t=col("at")), ("user",), "at"),
    "only a copy kept": (lambda s: s.select(u=col("user"), t=col("at")), ("u",), "t"),
    "swapped": (lambda s: s.rename({"user": "n", "n": "user"}), ("n",), "at"),
    "joined": (lambda s: s.join(ads(n=int, x=str), on="n"), ("user",), "at"),
    "keyed anew": (lambda s: s.key_by("n", "user"), ("n", "user"), "at"),
    "union": (lambda s: s.union(s.select("at", "user", "n", "price")), ("user",), "at"),
    "union of keyed and not": (lambda s: s.union(timed()), (), "at"),
    "union of timed and not": (lambda s: s.union(events().key_by("user")), ("user",), None),
}


@pytest.mark.parametrize(("change", "key", "time"), KEYED.values(), ids=KEYED.keys())
def test_key_and_time_follow_their_columns(change, key, time):
    assert key_and_time(change(timed().key_by("user"))) == (key, time)


# ---------------------------------------------------------------- unions and joins


def test_union_orders_columns_and_widens_nulls():
    made = example(a=int, b=optional(str)).union(example(b=str, a=optional(int)))
    assert made.schema == schema(a=optional(int), b=optional(str))
    left, right = made.node.inputs
    assert left.columns == (("a", Cast(Column("a"), optional(int64))), ("b", Column("b")))
    assert right.schema == made.schema


def test_union_of_equal_streams_adds_nothing():
    one = events()
    made = one.union(one)
    assert made.node.inputs == (one.node, one.node)


def test_union_of_one():
    one = events()
    assert one.union().node.inputs == (one.node,)


def test_join():
    table = ads(ad=str, campaign=int32, since=optional(dt.date))
    made = events().join(table, on={"user": "ad"}, how="left", name="campaigns").node
    assert isinstance(made, TableJoin)
    assert made.schema.names == ("user", "price", "n", "at", "campaign", "since")
    assert made.schema["campaign"] == optional(int32)
    assert (made.left_on, made.right_on) == (("user",), ("ad",))
    assert made.taken == (("campaign", "campaign"), ("since", "since"))
    inner = events().join(table, "user", right_on=["ad"])
    assert inner.schema["campaign"] == int32


def test_join_on_a_nullable_key():
    made = example(a=optional(int)).join(ads(a=int, x=str), on=["a"])
    assert made.schema == schema(a=optional(int), x=str)


# ---------------------------------------------------------------- windows


def test_window_aggregate():
    windowed = timed().key_by("user").window(tumbling("1min", offset="90s"))
    made = windowed.agg(
        {"name": count()}, s=sum_("n"), m=mean("n"), lo=min_("user"), hi=max_("at"), name="w"
    ).node
    assert isinstance(made, WindowAggregate)
    assert made.schema == schema(
        user=str, window_start=timestamp, name=int, s=int, m=float, lo=str, hi=timestamp
    )
    assert made.window == Tumbling(60_000_000, 30_000_000)
    assert (made.key, made.time, made.name) == (("user",), "window_start", "w")
    assert made.rows == made.input.schema


def test_windows_without_key_and_in_plain_numbers():
    made = example(t=int).with_watermark("t", 3).window(tumbling(10, offset=-1)).agg(n=count())
    assert made.node.window == Tumbling(10, 9)
    assert made.node.key == ()
    assert made.schema == schema(window_start=int, n=int)


def test_durations_are_known_as_such():
    made = events().with_watermark("at", duration("5s")).window(tumbling(duration("1m")))
    assert made.agg(n=count()).node.window == Tumbling(60_000_000)


def test_a_bound_of_zero_needs_no_unit():
    assert events().with_watermark("at", 0).node.bound == 0


def test_windows_of_windows():
    first = timed().key_by("user").window(tumbling("1s")).agg(n=count())
    second = first.window(tumbling("1m")).agg(n=sum_("n"))
    assert second.schema == schema(user=str, window_start=timestamp, n=int)


def test_late_rows_are_the_rows_that_went_in():
    late = timed().key_by("user").window(tumbling("1s")).agg(n=count()).late()
    assert late.schema == events().schema
    assert (late.node.key, late.node.time) == (("user",), None)


def test_nullable_time_gives_a_start_that_is_never_null():
    made = example(t=optional(int)).with_watermark("t", 0).window(tumbling(5)).agg(n=count())
    assert made.schema["window_start"] == int64


# ---------------------------------------------------------------- user functions


@pytest.mark.compiled
def test_map_binds_parameters_by_name():
    made = events().map(lambda n, price: (n * price, n), output=["x", "y"], carry="user").node
    assert isinstance(made, Project)
    assert made.schema == schema(user=str, x=float, y=int)
    (_, _), (_, x), (_, y) = made.columns
    assert isinstance(x, Call) and (x.result, y.result) == (0, 1)
    assert x.function == y.function
    assert x.operands == (Column("n"), Column("price"))


@pytest.mark.compiled
def test_map_binds_parameters_by_order():
    made = events().map(lambda a, b: a + b, output="x", columns=["n", "n"])
    assert made.node.columns[0][1].operands == (Column("n"), Column("n"))


@pytest.mark.compiled
def test_map_leaves_defaults_alone():
    made = events().map(lambda n, factor=3: n * factor, output={"x": int})
    assert made.node.columns[0][1].operands == (Column("n"),)
    assert made.schema == schema(x=int)


@pytest.mark.compiled
def test_flat_map():
    def spread(n):
        for i in range(n):
            yield i, i / 2

    made = timed().key_by("user").flat_map(spread, output=["i", "half"], carry=["user", "at"]).node
    assert type(made) is FlatMap
    assert made.schema == schema(user=str, at=timestamp, i=int, half=float)
    assert (made.key, made.time, made.carry) == (("user",), "at", ("user", "at"))
    bare = timed().key_by("user").flat_map(spread, output=["i", "half"]).node
    assert (bare.key, bare.time) == ((), None)


@pytest.mark.compiled
def test_process():
    class Totals:
        total: float
        seen: int = 3

    def running(state, price):
        state.total += price
        state.seen += 1
        yield state.total, state.seen

    made = timed().key_by("user").process(running, state=Totals, output=["total", "seen"]).node
    assert isinstance(made, Process)
    assert made.schema == schema(user=str, total=float, seen=int)
    assert (made.key, made.time, made.arguments) == (("user",), None, ("price",))
    assert made.function.state == StateSpec(
        (Field("total", float64), Field("seen", int64)), (0.0, 3)
    )


@pytest.mark.compiled
def test_functions_in_expressions():
    @udf
    def double(x):
        return x * 2

    made = events().with_columns(x=double(double(col("n")) + 1)).filter(double(col("x")) > 3)
    assert made.schema["x"] == int64
    assert isinstance(made.node.predicate.left, Call)
    counted = timed().window(tumbling("1s")).agg(x=sum_(double(col("price"))))
    assert counted.schema["x"] == float64


@pytest.mark.compiled
def test_event_time_computed_by_a_function():
    @udf(returns=timestamp)
    def shifted(at):
        return at + 1

    made = events().with_columns(later=shifted(col("at"))).with_watermark("later", "1s")
    assert made.node.time == "later"


def test_map_batches_warns_at_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = timed().key_by("user").map_batches(lambda b: b, schema={"at": timestamp, "x": int8})
    (warning,) = caught
    assert warning.category is PlainPythonWarning
    assert warning.filename == __file__
    assert "the lambda" in str(warning.message)
    assert made.schema == schema(at=timestamp, x=int8)
    assert key_and_time(made) == ((), None)  # its rows need not be those of the input


# ---------------------------------------------------------------- state


@dataclasses.dataclass(slots=True)
class Slotted:
    n: int
    name: "str | None"
    best: float = 1
    last: dt.datetime = dt.datetime(1970, 1, 1, 0, 0, 1)


STATES = {
    "types": ({"a": int, "b": optional(str)}, (0, None), (int64, optional(string))),
    "values": ({"a": 1.5, "b": "x"}, (1.5, "x"), (float64, string)),
    "class": (
        Slotted,
        (0, None, 1.0, 1_000_000),
        (int64, optional(string), float64, timestamp),
    ),
    "spec": (StateSpec((Field("a", int8),), (7,)), (7,), (int8,)),
}


@pytest.mark.parametrize(("given", "initial", "kinds"), STATES.values(), ids=STATES.keys())
@pytest.mark.compiled
def test_states(given, initial, kinds):
    def same(state, n):
        yield n

    spec = events().key_by("user").process(same, state=given, output="x").node.function.state
    assert spec.initial == initial
    assert tuple(field.type for field in spec.fields) == kinds


def test_a_stream_shows_itself():
    assert repr(timed().key_by("user").select("user", "at")) == (
        "Stream(user: string, at: timestamp; key user; time at)"
    )
    assert isinstance(events(), Stream)
