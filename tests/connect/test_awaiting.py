"""Asynchronous iterators as sources: in order, with their errors, cancelled in time."""

import asyncio
import threading

import pytest

import headrace as hr

engines = pytest.mark.parametrize("engine", ["thread", "node"])


def collected(stream, engine):
    out = stream.write.collect()
    hr.run(out, engine=engine, compiled=False)
    return out.result().to_pylist()


@engines
def test_rows_of_an_asynchronous_generator(engine):
    async def rows():
        for n in range(50):
            if n % 10 == 0:
                await asyncio.sleep(0)
            yield {"n": n, "text": str(n)}

    expected = [{"n": n, "text": str(n)} for n in range(50)]
    assert collected(hr.read.iterate(rows()), engine) == expected
    assert collected(hr.read.iterate(rows(), schema={"n": int, "text": str}), engine) == expected


@engines
def test_what_it_raises_comes_behind_the_rows_before(engine):
    async def rows():
        yield {"n": 1}
        await asyncio.sleep(0)
        raise LookupError("the server is gone")

    with pytest.raises(LookupError, match="the server is gone"):
        collected(hr.read.iterate(rows()), engine)


@engines
def test_one_that_waits_is_cancelled_and_cleans_up(engine):
    cleaned = threading.Event()

    async def rows():
        try:
            yield {"n": 1}
            await asyncio.sleep(3600)
        finally:
            cleaned.set()

    out = hr.read.iterate(rows(), schema={"n": int}).write.collect()

    def watch(job):
        if job.progress().rows_out == 1:
            job.stop()

    job = hr.run(out, engine=engine, compiled=False, watch=watch, seconds=60)
    assert job.status == "stopped" and out.result().to_pylist() == [{"n": 1}]
    assert cleaned.wait(30)


def test_the_first_row_is_taken_inside_of_a_running_loop():
    """As in a notebook, where a loop runs already."""

    async def rows():
        yield {"n": 1}

    async def notebook():
        return collected(hr.read.iterate(rows()), "thread")

    assert asyncio.run(notebook()) == [{"n": 1}]
