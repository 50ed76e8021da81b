"""Wrong pipelines and functions, each with the message that it must give.

Each case is a small function with one wrong line, marked with `# wrong`. The error must say what is
wrong, show that very line, and (nearly always) say how to fix it.
"""

import datetime as dt
import functools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.expr import col, concat, count, from_millis, lit, max_, mean, sum_, udf, when
from headrace.plan.errors import PipelineError
from headrace.plan.schema import Schema
from headrace.plan.table import Table
from headrace.plan.types import int8, optional
from headrace.stream import example
from headrace.time import duration, tumbling

CASES = []
NO_FIX = None


def wrong(what, fix=""):
    """Register a case: a piece of the message, and one of its fix."""

    def register(case):
        marks = pytest.mark.compiled if case.__name__.startswith("function_") else ()
        CASES.append(pytest.param(case, what, fix, id=case.__name__, marks=marks))
        return case

    return register


def events():
    return example(user=str, price=float, n=int, ok=bool, at=dt.datetime, maybe=optional(int))


def timed():
    return events().with_watermark("at", "5s")


def ads(**columns):
    return Table("ads", Schema.of(columns), lambda: pa.table({}))


# ---------------------------------------------------------------- columns


@wrong("filter: no column 'usr'", "did you mean 'user'?")
def unknown_column():
    events().filter(col("usr") == "ada")  # wrong


@wrong("filter 'views': no column 'zzz'", "there are: user, price, n, ok, at, maybe")
def unknown_column_in_a_named_operator():
    events().filter(col("zzz") == 1, name="views")  # wrong


@wrong("select: no column 'pricee'", "did you mean 'price'?")
def select_of_unknown_column():
    events().select("user", "pricee")  # wrong


@wrong("drop: no column 'x'", "there are:")
def drop_of_unknown_column():
    events().drop("x")  # wrong


@wrong("rename: no column 'usr'", "did you mean 'user'?")
def rename_of_unknown_column():
    events().rename({"usr": "u"})  # wrong


@wrong("rename: two columns are named 'price'", "rename one of them")
def rename_to_a_name_that_is_taken():
    events().rename(n="price")  # wrong


@wrong("select: two columns are named 'user'", "rename one of them")
def select_twice():
    events().select("user", "user")  # wrong


@wrong("select: no column is left", "keep at least one column")
def empty_select():
    events().select()  # wrong


@wrong("drop: no column is left", "keep at least one column")
def drop_of_everything():
    example(a=int).drop("a")  # wrong


@wrong("drop: no column is given", "drop('a', 'b')")
def drop_of_nothing():
    events().drop()  # wrong


@wrong("with_columns: no column is given", "with_columns(")
def with_no_columns():
    events().with_columns()  # wrong


@wrong("select: (n + 1) has no name", "select(total=...)")
def computed_column_without_a_name():
    events().select(col("n") + 1)  # wrong


@wrong("with_columns: 'headrace:n' is a reserved name", "names that start with headrace: are those")
def reserved_name():
    events().with_columns({"headrace:n": col("n")})  # wrong


@wrong("select: '' is not a column's name", "names are strings that are not empty")
def empty_name():
    events().select({"": col("n")})  # wrong


@wrong("with_columns: copy='user' could be a column or a text", "col('user') or hr.lit('user')")
def text_that_may_be_a_column():
    events().with_columns(copy="user")  # wrong


@wrong("is not the name of an operator", "to make a column called 'name'")
def column_called_name():
    events().with_columns(name=col("user"))  # wrong


@wrong("col(3) names no column", "as a string")
def column_by_number():
    col(3)  # wrong


@wrong("select: 3 is not the name of a column", "as a string")
def select_by_number():
    events().select(3)  # wrong


# ---------------------------------------------------------------- conditions and expressions


@wrong("filter: n is int64, not a condition", "col('n') != 0")
def number_as_condition():
    events().filter(col("n"))  # wrong


@wrong("filter: (n + 1) is int64, not a condition", "compare it")
def sum_as_condition():
    events().filter(col("n") + 1)  # wrong


@wrong("filter: True is not a condition on columns", "col('price') > 1")
def python_truth_as_condition():
    events().filter(col("maybe") is not None)  # wrong


@wrong("is not true or false", "use & and | instead of and/or")
def python_and():
    events().filter(col("n") > 1 and col("n") < 5)  # wrong


@wrong("is not true or false", ".between(a, b)")
def chained_comparison():
    events().filter(1 < col("n") < 5)  # wrong


@wrong("is not true or false", "~ instead of not")
def python_not():
    events().filter(not col("ok"))  # wrong


@wrong("(user == 'a') is not true or false", "& and |")
def python_if():
    1 if col("user") == "a" else 2  # wrong


@wrong("& combines conditions, and an operand of", "put comparisons in parentheses")
def missing_parentheses():
    events().filter(col("ok") & col("n"))  # wrong


@wrong("`in` does not work on user", ".is_in([...])")
def python_in():
    "ada" in col("user")  # wrong


@wrong("is_in('ada') needs a list of constants", ".is_in([1, 2, 3])")
def is_in_of_a_text():
    events().filter(col("user").is_in("ada"))  # wrong


@wrong("is_in() with None is never true for a null", "x.is_null()")
def is_in_with_none():
    events().filter(col("maybe").is_in([1, None]))  # wrong


@wrong("is_in() takes constants, not columns", "(a == b) | (a == c)")
def is_in_of_columns():
    events().filter(col("n").is_in([col("maybe")]))  # wrong


@wrong("maybe == None is never true", "use .is_null()")
def comparison_with_none():
    events().filter(col("maybe") == None)  # wrong  # noqa: E711


@wrong("maybe != None is never true", "use .is_not_null()")
def inequality_with_none():
    events().filter(col("maybe") != None)  # wrong  # noqa: E711


@wrong("string == int64 cannot be compared, in (user == 1)", "cast one side")
def comparison_of_text_and_number():
    events().filter(col("user") == 1)  # wrong


@wrong("timestamp > int64 cannot be compared", "compare timestamps with datetime objects")
def comparison_of_time_and_number():
    events().filter(col("at") > 1_700_000_000)  # wrong


@wrong("string + int64 has no meaning", "cast one side")
def sum_of_text_and_number():
    events().with_columns(x=col("user") + 1)  # wrong


@wrong("string + string has no meaning", "use hr.concat(a, b)")
def sum_of_texts():
    events().with_columns(x=col("user") + "!")  # wrong


@wrong("- has no meaning for string", NO_FIX)
def negative_text():
    events().with_columns(x=-col("user"))  # wrong


@wrong("upper() works on strings, and an operand of upper(n) is int64", ".cast")
def upper_of_a_number():
    events().with_columns(x=col("n").upper())  # wrong


@wrong("binary cannot be cast to int64", "@hr.udf")
def cast_of_bytes():
    events().with_columns(x=col("user").cast(bytes).cast(int))  # wrong


@wrong("'decimal' is not a column type; use one of bool, int8", NO_FIX)
def unknown_type():
    events().with_columns(x=col("n").cast("decimal"))  # wrong


@wrong("the alternatives of", "cast them to one type")
def alternatives_of_two_types():
    events().with_columns(x=when(col("ok")).then(1).otherwise("no"))  # wrong


@wrong("when(n) needs a condition", NO_FIX)
def case_without_a_condition():
    events().with_columns(x=when(col("n")).then(1))  # wrong


@wrong("a when(...) without its .then(...)", "when(condition).then(value)")
def case_without_a_value():
    events().with_columns(x=when(col("ok")))  # wrong


@wrong("a bare None has no type", "hr.lit(None, type)")
def bare_none():
    events().with_columns(x=when(col("ok")).then(None))  # wrong


@wrong("the alternatives of coalesce(maybe, 'none') are", "cast them to one type")
def filling_of_another_type():
    events().with_columns(x=col("maybe").fill_null("none"))  # wrong


@wrong("concat() needs two strings or more", "hr.concat(a, b)")
def concat_of_one():
    concat(col("user"))  # wrong


@wrong("9223372036854775808 does not fit int64", "use a float")
def huge_integer():
    events().filter(col("n") < 2**63)  # wrong


@wrong("300 does not fit int8", "use a wider type")
def integer_too_large_for_its_type():
    lit(300, int8)  # wrong


@wrong("float64 > decimal(2, 1) cannot be compared", "cast one side")
def decimal_constant():
    events().filter(col("price") > Decimal("1.5"))  # wrong


@wrong("a list cannot be a constant of a pipeline", "use a number")
def list_as_constant():
    events().with_columns(x=[1, 2])  # wrong


@wrong("a numpy.ndarray cannot be a constant of a pipeline", "use a number")
def array_as_constant():
    events().with_columns(x=col("n") + np.arange(3))  # wrong


@wrong("timestamp cannot be cast to float64", "@hr.udf")
def cast_of_time_to_float():
    events().with_columns(x=col("at").cast(float))  # wrong


@wrong("float64 cannot be cast to timestamp", "@hr.udf")
def time_from_a_float():
    events().with_columns(t=from_millis("price"))  # wrong


@wrong("aggregates such as sum(n) cannot be part of an expression", "with_columns")
def arithmetic_of_aggregates():
    sum_("n") / count()  # wrong


@wrong("aggregates such as count() cannot be part of an expression", "agg(...)")
def aggregate_outside_agg():
    events().with_columns(x=count())  # wrong


@wrong("3 is neither a column's name nor an expression", 'hr.sum("price")')
def sum_of_a_number():
    sum_(3)  # wrong


# ---------------------------------------------------------------- unions and joins


@wrong("union: stream 2 has no column 'b', which stream 1 has", "same columns")
def union_without_a_column():
    example(a=int, b=int).union(example(a=int))  # wrong


@wrong("union: stream 2 has a column 'b', which stream 1 lacks", "select or drop")
def union_with_a_column_too_many():
    example(a=int).union(example(a=int, b=int))  # wrong


@wrong("union: column 'a' is int64 in stream 1 and string in stream 3", ".cast(...)")
def union_of_two_types():
    example(a=int).union(example(a=int), example(a=str))  # wrong


@wrong("union: list is not a stream", "a.union(b, c)")
def union_of_a_list():
    example(a=int).union([example(a=int)])  # wrong


@wrong("join: Stream is not a static table", "window_join or interval_join")
def join_of_two_streams():
    events().join(events(), on="user")  # wrong


@wrong("join: no column 'ad'", "there are")
def join_on_unknown_column():
    events().join(ads(ad=int), on="ad")  # wrong


@wrong("the table ads has no column 'n'", "there are: ad, campaign")
def join_on_unknown_column_of_the_table():
    events().join(ads(ad=int, campaign=str), on="n")  # wrong


@wrong("'n' is int64, and 'ad' of the table is string", "columns of the same type")
def join_on_two_types():
    events().join(ads(ad=str), on={"n": "ad"})  # wrong


@wrong("both the stream and the table ads have a column 'price'", ".rename({'price': 'other'})")
def join_with_a_name_twice():
    events().join(ads(user=str, price=float), on="user")  # wrong


@wrong("how='outer' is not a kind of join", 'how="inner" or how="left"')
def outer_join():
    events().join(ads(user=str), on="user", how="outer")  # wrong


@wrong("on= has 1 columns and right_on= has 2", "as many of each")
def join_on_more_columns_of_one_side():
    events().join(ads(a=str, b=str), on="user", right_on=["a", "b"])  # wrong


@wrong("a join needs at least one column", 'on="id"')
def join_on_nothing():
    events().join(ads(user=str), on=[])  # wrong


# ---------------------------------------------------------------- keys, time, windows


@wrong("key_by: no column 'usr'", "did you mean 'user'?")
def key_of_unknown_column():
    events().key_by("usr")  # wrong


@wrong("key_by: a key needs at least one column", 'key_by("user")')
def key_of_nothing():
    events().key_by()  # wrong


@wrong("a column is twice in the key ['user', 'user']", "name each once")
def key_with_a_column_twice():
    events().key_by("user", "user")  # wrong


@wrong("key_by: Expr(user) is not the name of a column", "as a string")
def key_of_an_expression():
    events().key_by(col("user"))  # wrong


@wrong("window: the stream has no event time", 'call with_watermark("column", "10s")')
def window_without_time():
    events().window(tumbling("10s"))  # wrong


@wrong("the event-time column 'at' was lost at test_mistakes.py", "keep it")
def window_behind_a_lost_time():
    lost = timed().select("user", "n")
    lost.filter(col("n") > 1).window(tumbling("10s"))  # wrong


@wrong("the event-time column 'at' was lost at test_mistakes.py", "keep it unchanged")
def window_behind_a_changed_time():
    lost = timed().with_columns(at=col("at") + dt.timedelta(seconds=1))
    lost.window(tumbling("10s"))  # wrong


@wrong(
    "the streams have different event times, 'at' and none, in the union",
    "call with_watermark behind the union",
)
def window_behind_a_union_of_two_times():
    timed().union(events()).window(tumbling("10s"))  # wrong


@wrong("late rows have no event time", "use key_by and process")
def window_of_late_rows():
    late = timed().window(tumbling("10s")).agg(n=count()).late()
    late.window(tumbling("1m"))  # wrong


@wrong("window: '10s' is not a window", 'window(hr.tumbling("10s"))')
def window_of_a_text():
    timed().window("10s")  # wrong


@wrong("the size 10 has no unit", 'say which: "10s"')
def window_without_a_unit():
    timed().window(tumbling(10))  # wrong


@wrong("the size '10s' is a duration, and the time column is int64", "hr.from_millis(...)")
def window_with_a_unit_over_plain_numbers():
    example(t=int).with_watermark("t", 5).window(tumbling("10s"))  # wrong


@wrong("the size '0s' is not positive", "longer")
def window_of_no_length():
    timed().window(tumbling("0s"))  # wrong


@wrong("'10 fortnights' is not a duration", '"500ms", "10s", "5 min"')
def unknown_unit():
    tumbling("10 fortnights")  # wrong


@wrong("'soon' is not a duration", "timedelta")
def duration_of_nothing():
    duration("soon")  # wrong


@wrong("'0.5us' is not a whole number of microseconds", "ms")
def duration_too_fine():
    duration("0.5us")  # wrong


@wrong("with_watermark: no column 'time'", "there are")
def watermark_of_unknown_column():
    events().with_watermark("time", "5s")  # wrong


@wrong("'price' is float64, and event time is a timestamp or an int64", "hr.from_millis(...)")
def watermark_of_a_float():
    events().with_watermark("price", "5s")  # wrong


@wrong("'day' is date, and event time is a timestamp or an int64", ".cast('timestamp')")
def watermark_of_a_date():
    example(day=dt.date).with_watermark("day", "1d")  # wrong


@wrong("the bound 5 has no unit", '"5s"')
def watermark_without_a_unit():
    events().with_watermark("at", 5)  # wrong


@wrong("the bound '-5s' is negative", "0 means")
def negative_bound():
    events().with_watermark("at", "-5s")  # wrong


@wrong("the event time is declared already: 'at' at test_mistakes.py", "declare it once")
def watermark_declared_twice():
    timed().with_watermark("at", "1s")  # wrong


@wrong("'since' comes from the table ads (at test_mistakes.py", "from the stream")
def watermark_of_a_table_column():
    joined = events().join(ads(user=str, since=dt.datetime), on="user")
    joined.with_watermark("since", "1s")  # wrong


@wrong("the event time is declared already", "declare it once")
def watermark_behind_a_window():
    counts = timed().window(tumbling("1s")).agg(n=count())
    counts.select("window_start").with_watermark("window_start", "1s")  # wrong


@wrong("'at' cannot be computed from the source's columns: it is made by a flat_map", "before the")
def function_before_the_watermark():
    def same(at):
        yield at

    made = events().flat_map(same, output={"at": dt.datetime})
    made.with_watermark("at", "5s")  # wrong


@wrong("agg: no aggregate is given", "agg(rows=hr.count())")
def empty_agg():
    timed().window(tumbling("1s")).agg()  # wrong


@wrong("agg: x=Expr(price) is not an aggregate", "hr.sum(...)")
def agg_of_a_column():
    timed().window(tumbling("1s")).agg(x=col("price"))  # wrong


@wrong("agg: sum(user) needs numbers, and user is string", "use count, min or max")
def sum_of_texts_in_agg():
    timed().window(tumbling("1s")).agg(x=sum_("user"))  # wrong


@wrong("mean(at) needs numbers", "use count, min or max")
def mean_of_times():
    timed().window(tumbling("1s")).agg(x=mean("at"))  # wrong


@wrong("agg: no column 'prize'", "did you mean 'price'?")
def agg_of_unknown_column():
    timed().window(tumbling("1s")).agg(x=max_("prize"))  # wrong


@wrong("two columns are named 'user'", "the result has the key columns and 'window_start'")
def aggregate_named_like_the_key():
    timed().key_by("user").window(tumbling("1s")).agg(user=count())  # wrong


@wrong("two columns are named 'window_start'", "use another name")
def aggregate_named_like_the_window():
    timed().window(tumbling("1s")).agg(window_start=count())  # wrong


@wrong(
    "only the result of window(...).agg(...), of process with timers or a time-to-live, of "
    "sort_by_time and of merge has late rows, not that of filter",
    "variable",
)
def late_of_something_else():
    counts = timed().window(tumbling("1s")).agg(n=count())
    counts.filter(col("n") > 1).late()  # wrong


@wrong("a stream has no rows until it runs", "hr.run(...)")
def loop_over_a_stream():
    list(events())  # wrong


# ---------------------------------------------------------------- the shape of user functions


@wrong("price has a parameter 'prize', but there is no such column", "did you mean 'price'?")
def function_of_unknown_column():
    def price(prize):
        return prize

    events().map(price, output="x")  # wrong


@wrong("takes 2 columns, and columns= names 1", "one column for each parameter")
def function_with_too_few_columns():
    events().map(lambda a, b: a + b, output="x", columns=["n"])  # wrong


@wrong("has the parameter *n, which stands for no column", "a parameter of its own")
def function_of_any_number_of_columns():
    events().map(lambda *n: 1, output="x")  # wrong


@wrong("map: 3 is not a function", "a function or a lambda")
def function_that_is_none():
    events().map(3, output="x")  # wrong


@wrong("output=5 is not a list of names", 'output=["a", "b"]')
def function_with_a_number_as_output():
    events().map(lambda n: n, output=5)  # wrong


@wrong("a name is twice in output=['x', 'x']", "once")
def function_with_an_output_twice():
    events().map(lambda n: (n, n), output=["x", "x"])  # wrong


@wrong("two columns are named 'user'", "rename")
def function_with_an_output_that_goes_along():
    events().map(lambda n: n, output="user", carry="user")  # wrong


@wrong("the stream has no key to keep a state for", "call key_by")
def function_with_state_without_key():
    def totals(state, n):
        yield n

    events().process(totals, state={"n": int}, output="x")  # wrong


@wrong("the key user was lost at test_mistakes.py", "call key_by again")
def function_with_state_behind_a_lost_key():
    lost = events().key_by("user").with_columns(user=col("user").lower())
    lost.process(lambda state, n: (yield n), state={"n": int}, output="x")  # wrong


@wrong("process: two columns are named 'user'", "user comes by itself")
def function_with_an_output_named_like_the_key():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state={"n": int}, output="user")  # wrong


@wrong("state=3 describes no state", "state={'count': int}")
def function_with_a_number_as_state():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state=3, output="x")  # wrong


@wrong("the state has no field", "state={'count': int}")
def function_with_an_empty_state():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state={}, output="x")  # wrong


@wrong("the type of 'items': <class 'list'> is not a column type", NO_FIX)
def function_with_a_list_in_its_state():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state={"items": list}, output="x")  # wrong


@wrong("the first value of the state field 'n': 'a' is not a value of int64", NO_FIX)
def function_with_a_wrong_first_value():
    class State:
        n: int = "a"

    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state=State, output="x")  # wrong


@wrong("State.total has no type", "annotate it: total: int = 0")
def function_with_a_state_without_types():
    class State:
        total = 0

    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state=State, output="x")  # wrong


@wrong("None is no first value of the state field 'last'", "hr.optional(int)")
def function_with_none_in_its_state():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state={"last": None}, output="x")  # wrong


@wrong("'int64' for the state field 'n' is a text, and also the name of a type", "hr.int64")
def function_with_a_state_of_two_meanings():
    keyed = events().key_by("user")
    keyed.process(lambda s, n: (yield n), state={"n": "int64"}, output="x")  # wrong


@wrong("map_batches: 3 is not a function", "map_batches(function, schema=...)")
def batches_without_a_function():
    events().map_batches(3, schema={"a": int})  # wrong


@wrong("map_batches: schema={'a': 5}: 5 is not a column type", "schema={'a': int, 'b': str}")
def batches_of_unknown_type():
    events().map_batches(lambda batch: batch, schema={"a": 5})  # wrong


@wrong("@udf needs a function, not 3", "above a def")
def function_from_a_number():
    udf(3)  # wrong


@wrong("half: missing a required argument: 'x'", NO_FIX)
def function_called_with_too_little():
    half = udf(_half)
    half(y=col("n"))  # wrong


@wrong("the function _half is used without being called", "_half(col(...))")
def function_not_called():
    events().with_columns(x=udf(_half))  # wrong


# ---------------------------------------------------------------- habits from elsewhere


@wrong("a stream has no 'group_by'", 'key_by("user").window(hr.tumbling("10s")).agg(')
def habit_of_polars():
    events().group_by("user")  # wrong


@wrong("a stream has no 'groupBy'", 'key_by("user").window(hr.tumbling("10s")).agg(')
def habit_of_spark():
    events().groupBy("user")  # wrong


@wrong("a stream has no 'withColumn'", "stream.with_columns(")
def habit_of_one_column():
    events().withColumn("x", col("n"))  # wrong


@wrong("a stream cut into windows has no 'sum'", ".agg(n=hr.count()")
def sum_of_windows():
    events().with_watermark("n", 0).window(hr.tumbling(10)).sum("price")  # wrong


@wrong("headrace has no 'tumblin'", "did you mean 'tumbling'?")
def misspelt_window():
    hr.tumblin("10s")  # wrong


@wrong("a stream has no 'price'", "the column is col('price')")
def a_column_as_an_attribute():
    events().price  # wrong


@wrong("stream: nothing is taken out of a stream by ['price']", 'stream.select("n", "m")')
def a_column_by_brackets():
    events()["price"]  # wrong


@wrong("a stream has no 'write_csv'", "stream.write.csv(path)")
def polars_writer():
    events().write_csv("out.csv")  # wrong


@wrong("an expression has no 'sum'", '.agg(total=hr.sum("price"))')
def polars_sum():
    timed().key_by("user").window(tumbling("10s")).agg(total=col("price").sum())  # wrong


@wrong("an expression has no 'alias'", "stream.select(total=...)")
def polars_alias():
    events().select((col("price") * 2).alias("total"))  # wrong


@wrong("an expression has no 'startswith'", '.starts_with("a")')
def text_method_of_python():
    events().filter(col("user").startswith("a"))  # wrong


@wrong("an expression has no 'hour'", ".dt.hour(...)")
def part_of_a_time_without_dt():
    events().with_columns(hour=col("at").hour())  # wrong


@wrong(".str has no 'lower'", ".str.to_lowercase()")
def pandas_lower():
    events().with_columns(low=col("user").str.lower())  # wrong


@wrong(".dt has no 'yeer'", "did you mean 'year'?")
def misspelt_part_of_a_time():
    events().with_columns(year=col("at").dt.yeer())  # wrong


@wrong("agg: Agg(sum(price)) has no name", 'agg(total=hr.sum("price"))')
def aggregate_without_a_name():
    timed().key_by("user").window(tumbling("10s")).agg(sum_("price"))  # wrong


@wrong("agg: [Agg(count())] has no name", "agg(total=")
def list_of_aggregates():
    timed().key_by("user").agg([count()])  # wrong


@wrong("running: Agg(count()) has no name", "running(total=")
def running_aggregate_without_a_name():
    events().key_by("user").running(count())  # wrong


@wrong("with_columns: Expr(n * 2) has no name", "with_columns(total=")
def column_without_a_name():
    events().with_columns(col("n") * 2)  # wrong


@wrong("rename: 'n' has no name", 'rename(old="new")')
def renamed_to_nothing():
    events().rename("n")  # wrong


@wrong("filter: a function is not a condition on columns", "@hr.udf")
def filter_by_a_function():
    events().filter(lambda n: n > 1)  # wrong


@wrong("filter: False is not a condition on columns", ".is_null()")
def filter_by_is_none():
    events().filter(col("maybe") is None)  # wrong


@wrong("price is one value for each row", "hr.sum(...)")
def sum_of_python():
    timed().key_by("user").agg(total=sum(col("price")))  # wrong


@wrong("price is no number before a row comes", '.cast("int64")')
def int_of_python():
    events().with_columns(whole=int(col("price")))  # wrong


@wrong("is not true or false", "hr.greatest instead of min and max")
def max_of_python():
    events().with_columns(most=max(col("price"), col("n")))  # wrong


@wrong("is not true or false", ".is_in([...]) instead of in")
def column_in_a_list():
    events().filter(col("user") in ["ann", "bob"])  # wrong


@wrong("'$.a[*]' is not a path: '[*]' is neither .name nor [0]", "$.user.names[0]")
def path_with_a_star():
    events().with_columns(x=col("user").str.json_path_match("$.a[*]"))  # wrong


@wrong("a stream has no 'slect'", "did you mean 'select'?")
def misspelt_method():
    events().slect("n")  # wrong


# ---------------------------------------------------------------- functions of expressions


@wrong("sqrt() works on numbers, and an operand of sqrt(user) is string", ".cast(float)")
def root_of_a_text():
    events().with_columns(x=col("user").sqrt())  # wrong


@wrong("year() works on dates and timestamps, and an operand of year(n) is int64", "from_millis")
def year_of_a_number():
    events().with_columns(x=col("n").dt.year())  # wrong


@wrong("'Europe/Berln' is not a time zone", "did you mean 'Europe/Berlin'?")
def misspelt_zone():
    col("t").dt.hour(zone="Europe/Berln")  # wrong


@wrong("'soon' is no step of time", '"1mo"')
def step_that_is_none():
    col("t").dt.truncate("soon")  # wrong


@wrong("is not a regular expression of RE2", "lookaround")
def pattern_that_is_none():
    col("user").str.contains("(?=a)b")  # wrong


@wrong("extract('a+') has no group 1", "put parentheses around")
def group_that_is_none():
    col("user").str.extract("a+")  # wrong


@wrong("split_part() by an empty string", "split_part(")
def part_by_nothing():
    col("user").str.split_part("", 1)  # wrong


@wrong("'ab' is not one character", "pad_start(8")
def fill_of_two_characters():
    col("user").str.pad_start(8, "ab")  # wrong


@wrong("closed='maybe' is no way", '"left"')
def between_of_no_kind():
    col("n").between(1, 2, closed="maybe")  # wrong


@wrong("clip() needs a bound", "clip(0, 10)")
def clip_without_bounds():
    col("n").clip()  # wrong


@wrong("least() needs two values", "hr.least(")
def least_of_one():
    hr.least(col("n"))  # wrong


@wrong("a duration has no weeks", "days, hours")
def duration_of_weeks():
    hr.duration(weeks=2)  # wrong


@wrong("is computed over whole columns", ".str.to_datetime()")
def event_time_of_a_format():
    late = events().with_columns(at=col("user").str.to_datetime("%d.%m.%Y"))
    late.with_watermark("at", "1s").explain()  # wrong


# ---------------------------------------------------------------- what cannot be compiled


def _half(x):
    return x / 2


class Meter:
    def read(self, n):
        return n


@wrong("does not yield", "yield each row")
def function_that_does_not_yield():
    events().flat_map(lambda n: n, output="x")  # wrong


@wrong("yields", "use flat_map")
def function_that_yields():
    def twice(n):  # wrong
        yield n
        yield n

    events().map(twice, output="x")


@wrong("is async", "write a plain function")
def function_that_is_async():
    async def later(n):  # wrong
        return n

    events().map(later, output="x")


@wrong("prints", "write the stream to the console instead")
def function_that_prints():
    def shown(n):
        print(n)  # wrong
        return n

    events().map(shown, output="x")


@wrong("opens a file", "map_batches")
def function_that_opens_a_file():
    def logged(n):
        open("log.txt")  # wrong
        return n

    events().map(logged, output="x")


@wrong("assigns to the global 'TOTAL'", "keep it in the state of process()")
def function_that_assigns_to_a_global():
    def counted(n):
        global TOTAL
        TOTAL = n  # wrong
        return n

    events().map(counted, output="x")


@wrong("uses 'PRICES', a dict", "join with a table")
def function_that_uses_a_dict():
    PRICES = {1: 2}

    def price(n):
        return PRICES[n]  # wrong

    events().map(price, output="x")


@wrong("uses 'seen', a list", "make it a tuple or a NumPy array")
def function_that_uses_a_list():
    seen = [1, 2]

    def known(n):
        return n in seen  # wrong

    events().filter(udf(known)(col("n")))


@wrong("uses 'meter', an object of class Meter", "use numbers")
def function_that_uses_an_object():
    meter = Meter()

    def measured(n):
        return meter.read(n)  # wrong

    events().map(measured, output="x")


@wrong("uses 'no_such_thing', which is not defined", "define it before")
def function_that_uses_nothing():
    def lost(n):
        return no_such_thing(n)  # wrong  # noqa: F821

    events().map(lost, output="x")


@wrong("imports 'json' inside the function", "at the top of the module")
def function_that_imports():
    def parsed(user):
        import json  # wrong

        return len(json.loads(user))

    events().map(parsed, output="x")


@wrong("uses `with`", "map_batches")
def function_that_uses_with():
    def guarded(n):
        with memoryview(b"") as _:  # wrong
            return n

    events().map(guarded, output="x")


@wrong("uses `yield from`", "for x in ...: yield x")
def function_that_yields_from():
    def spread(n):
        yield from (n, n)  # wrong

    events().flat_map(spread, output="x")


@wrong("uses a generator expression", "list comprehension")
def function_with_a_generator_expression():
    def total(n):
        return sum(i for i in range(n))  # wrong

    events().map(total, output="x")


@wrong("cannot be compiled", "map_batches")
def function_that_mixes_texts_and_numbers():
    def joined(user, n):
        return user + n  # wrong

    events().map(joined, output="x")


@wrong("cannot be compiled", "map_batches")
def function_that_calls_an_unknown_method():
    def broken(n):
        return n.no_such_method()  # wrong

    events().map(broken, output="x")


@wrong("is a functools.partial", "write a lambda")
def function_that_is_a_partial():
    events().map(functools.partial(_half), output="half", columns=["n"])  # wrong


@wrong("is a method", "outside the class")
def function_that_is_a_method():
    events().map(Meter().read, output="x")  # wrong


@wrong("is not written in Python", "lambda x: sqrt(x)")
def function_that_is_built_in():
    events().map(math.sqrt, output="x", columns=["price"])  # wrong


@wrong("the state has no field 'no_such_field'", "map_batches")
def function_that_uses_an_unknown_state_field():
    def totals(state, n):
        state.no_such_field += n  # wrong
        yield n

    events().key_by("user").process(totals, state={"n": int}, output="x")


@wrong("gives 2 values", "one value for each of: x")
def function_that_gives_more_than_is_named():
    events().map(lambda n: (n, n), output="x")  # wrong


@wrong("which no column can hold", "flat_map")
def function_that_gives_a_list():
    events().map(lambda n: [n, n], output="x")  # wrong


@wrong("gives 2 values, and an expression has one", "stream.map(...)")
def function_of_several_values_in_an_expression():
    both = udf(lambda x: (x, x))
    events().with_columns(x=both(col("n")))  # wrong


@wrong("gives int64 for result 1, which is declared string", "change the declaration")
def function_that_gives_another_type_than_declared():
    text = udf(lambda x: x, returns=str)  # wrong
    events().with_columns(x=text(col("n")))


@pytest.mark.parametrize(("case", "what", "fix"), CASES)
def test_mistake(case, what, fix):
    with pytest.raises(PipelineError) as caught:
        case()
    message = str(caught.value)
    said, _, advice = message.partition("\n  fix: ")
    assert what in said
    assert "test_mistakes.py:" in message
    assert "# wrong" in message, "the message shows the user's line"
    assert len(message.splitlines()) <= 3
    if fix is not NO_FIX:
        assert advice, "the message says how to fix it"
        assert fix in advice


def test_there_are_enough_cases():
    assert len(CASES) >= 60
