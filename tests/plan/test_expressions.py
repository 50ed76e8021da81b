"""Expressions of many terms, and what is remembered of them."""

import functools
import operator
import pickle
import subprocess
import sys

import pytest

import headrace as hr
from headrace.plan import expressions
from headrace.plan.expression_types import can_fail, type_of
from headrace.plan.expressions import Binary, Column, Expression, Literal, columns_of, substitute
from headrace.plan.schema import Schema
from headrace.plan.types import int64


def summed(terms):
    return functools.reduce(operator.add, [hr.col("a")] * terms)


def test_a_thousand_terms():
    rows = hr.read.memory({"a": [1, 2, 3]})
    any_of = functools.reduce(operator.or_, [hr.col("a") == k for k in range(2, 1002)])
    made = rows.with_columns(z=summed(1000)).filter(any_of)
    out = made.write.collect()
    assert "z" in hr.explain(out, engine="thread")
    hr.run(out, engine="thread", compiled=False)
    assert out.result().to_pydict() == {"a": [2, 3], "z": [2000, 3000]}


def test_what_is_too_deep_is_refused_with_the_line():
    with pytest.raises(hr.PipelineError) as raised:
        summed(expressions.DEEPEST + 1)
    said = str(raised.value)
    assert "more than 2,500 expressions lie inside each other" in said
    assert "test_expressions.py" in said and "fix: make columns of its parts first" in said


def counted(monkeypatch, name):
    """How often a method of Expression is called."""
    calls, real = [], getattr(Expression, name)

    def spy(self, *given):
        calls.append(self)
        return real(self, *given)

    monkeypatch.setattr(Expression, name, spy)
    return calls


def test_work_grows_with_the_number_of_terms_only(monkeypatch):
    """Each part is looked at some times, not once for each term around it."""
    schema = Schema.of({"a": int})
    calls = counted(monkeypatch, "parts")
    sizes = {}
    for terms in (200, 400):
        calls.clear()
        made = functools.reduce(lambda e, _: Binary("+", e, Column("a")), range(terms), Column("a"))
        node, hashes = made, set()
        while isinstance(node, Binary):
            assert type_of(node, schema) == int64 and can_fail(node, schema)
            hashes.add(hash(node))
            node = node.left
        assert len(hashes) == terms
        sizes[terms] = len(calls)
    assert sizes[400] <= 2.1 * sizes[200]


def test_deep_expressions_travel():
    """A process that gets one has as much room for it as the one that made it."""
    made = functools.reduce(lambda e, _: Binary("+", e, Column("a")), range(1500), Column("a"))
    program = (
        "import pickle, sys\n"
        "from headrace.plan.expressions import substitute, Column\n"
        "found = pickle.load(sys.stdin.buffer)\n"
        "print(found.depth, len(str(found)), hash(substitute(found, {'a': Column('b')})) != 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(made), capture_output=True, check=True
    )
    assert done.stdout.split() == [b"1501", str(len(str(made))).encode(), b"True"]


def test_what_is_remembered_stays_at_home():
    made = Binary("+", Column("a"), Literal(1, int64))
    hash(made)
    assert "_hash" not in made.__getstate__()
    again = pickle.loads(pickle.dumps(made))
    assert again == made and hash(again) == hash(made)
    schema = Schema.of({"a": int})
    assert type_of(made, schema) == int64 and hash(schema) == hash(Schema.of({"a": int}))
    assert "types" not in vars(pickle.loads(pickle.dumps(schema)))


def test_equal_expressions_are_equal():
    one, other = (Binary("+", Column("a"), Literal(1, int64)) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one.depth == 2
    assert one != Binary("+", Column("a"), Literal(2, int64))
    assert columns_of(substitute(one, {"a": Column("b")})) == {"b"}


def test_a_schema_finds_the_first_column_of_a_name():
    schema = Schema.of({f"c{k}": int for k in range(5000)})
    assert "c4999" in schema and schema["c4999"] == int64 and schema.index("c4999") == 4999
    assert "d" not in schema
    with pytest.raises(KeyError):
        schema["d"]
    with pytest.raises(ValueError, match="no column 'd'"):
        schema.index("d")
