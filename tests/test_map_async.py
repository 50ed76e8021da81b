"""Coroutines for rows: limits, time-outs, retries, order, errors."""

import asyncio
import threading

import pytest

import headrace as hr

engines = pytest.mark.parametrize("engine", ["thread", "node"])


def collected(stream, engine="thread"):
    out = stream.write.collect()
    hr.run(out, engine=engine, compiled=False)
    return out.result()


def numbers(count=20):
    return hr.read.memory({"n": list(range(count)), "text": [str(n) for n in range(count)]})


@engines
def test_results_come_in_order_whatever_the_calls_take(engine):
    async def slow(n):
        await asyncio.sleep(0.001 * ((n * 7) % 5))
        return n * n, None if n % 2 else str(n)

    output = {"square": int, "even": hr.optional(str)}
    found = collected(numbers().map_async(slow, output=output, carry="text"), engine)
    assert found.schema.names == ["text", "square", "even"]
    assert found.to_pylist() == [
        {"text": str(n), "square": n * n, "even": None if n % 2 else str(n)} for n in range(20)
    ]


@engines
def test_unordered_results_stay_with_their_rows(engine):
    done = []

    async def backwards(n):
        while n < 4 and len(done) < 4 - n:  # the last row of the batch is done first
            await asyncio.sleep(0.001)
        done.append(n)
        return n

    rows = numbers(5).map_async(backwards, output={"m": int}, carry=["n", "text"], ordered=False)
    found = collected(rows, engine).to_pylist()
    assert [row["m"] for row in found] == done and sorted(done) == list(range(5))
    assert done != sorted(done)
    assert all(row["n"] == row["m"] == int(row["text"]) for row in found)


def test_no_more_calls_at_a_time_than_the_limit():
    now, most = 0, 0

    async def counted(n):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return n

    collected(numbers(50).map_async(counted, output={"m": int}, limit=7))
    assert most == 7


def test_calls_that_fail_are_made_again(monkeypatch):
    monkeypatch.setattr("headrace.connect.async_calls.FIRST_PAUSE", 0.001)
    tries = dict.fromkeys(range(20), 0)

    async def flaky(n):
        tries[n] += 1
        if tries[n] <= n % 3:
            raise ConnectionError("not now")
        return n

    found = collected(numbers().map_async(flaky, output={"m": int}, retries=2))
    assert found["m"].to_pylist() == list(range(20))
    assert tries == {n: n % 3 + 1 for n in range(20)}


@engines
def test_one_that_fails_for_good_fails_the_job_and_says_with_what(engine):
    async def broken(n):
        if n == 3:
            raise LookupError("no such user")
        await asyncio.sleep(0)
        return n

    with pytest.raises(LookupError, match="no such user") as caught:
        collected(numbers().map_async(broken, output={"m": int}), engine)
    assert "called with n=3" in "".join(caught.value.__notes__) + str(caught.value)


def test_calls_take_no_longer_than_the_timeout():
    cancelled = threading.Event()

    async def hangs(n):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError) as caught:
        collected(numbers(1).map_async(hangs, output={"m": int}, timeout=0.01))
    assert "hangs took longer than 0.01 s, called with n=0" in str(caught.value)
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("result", "what"),
    [
        ("x", "row 0: 'x' is not a value of int64"),
        (None, "None is not a value"),
        ((1, 2), "a tuple"),
    ],
)
def test_results_that_do_not_fit(result, what):
    async def wrong(n):
        return result

    with pytest.raises(hr.DataError, match=what):
        collected(numbers(1).map_async(wrong, output={"m": int}))


def test_mistakes_are_found_when_it_is_built():
    async def fine(n):
        return n

    def plain(n):
        return n

    for given, options, what in [
        (plain, {"output": {"m": int}}, "is not a coroutine function"),
        (fine, {"output": ["m"]}, "types of what a coroutine gives must be declared"),
        (fine, {"output": {"n": int}, "carry": "n"}, "use another name in output="),
        (fine, {"output": {"m": int}, "columns": ["no"]}, "no column 'no'"),
        (fine, {"output": {"m": int}, "limit": 0}, "at least one call at a time"),
        (fine, {"output": {"m": int}, "timeout": 0}, "it takes some time"),
    ]:
        with pytest.raises(hr.PipelineError, match=what):
            numbers().map_async(given, **options)
