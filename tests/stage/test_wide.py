"""Rows of many columns: groups of them are written by functions of their own."""

import pytest
from tests.naive import naive
from tests.running import assert_same, run_staged

import headrace as hr
from headrace import col, concat
from headrace.asked import planned
from headrace.stage.generate import wide

COLUMNS, ROWS = 9, 23


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Few columns are many here."""
    monkeypatch.setattr(wide, "GROUP_COLUMNS", 2)
    monkeypatch.setattr(wide, "LEAST_COLUMNS", 4)


def given():
    """Numbers, some of them missing, and texts too long for the block that they come from."""
    made = {f"c{k}": [n * 7 % (k + 11) for n in range(ROWS)] for k in range(COLUMNS)}
    made["none"] = [None if n % 3 else n for n in range(ROWS)]
    made["text"] = [f"{n}" * (n % 40) for n in range(ROWS)]
    return hr.read.memory(made)


def numbered():
    return [col(f"c{k}") for k in range(COLUMNS)]


PIPELINES = {
    "filter": lambda: given().filter(col("c0") > 2),
    "can fail": lambda: given().select(**{f"d{k}": c * 2 + 1 for k, c in enumerate(numbered())}),
    "some can fail": lambda: given().filter(col("c1") > 1).with_columns(z=col("c2") * col("none")),
    "computed twice": lambda: (
        given()
        .with_columns(sum=col("c0") + col("c1"), is_less=col("c0") < col("c1"))
        .with_columns(more=col("sum") * 2, other=~col("is_less"), joined=concat(col("text"), "!"))
    ),
    "dropped": lambda: given().with_columns(gone=col("c0") * 3, kept=col("c1") * 3).drop("gone"),
    "texts": lambda: given().select(
        "text",
        *[f"c{k}" for k in range(4)],
        **{f"t{k}": concat(col("text"), str(k)) for k in range(5)},
    ),
    "filter behind": lambda: given().with_columns(x=col("c0") * 2).filter(col("x") > 4),
}


@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize("name", PIPELINES)
def test_groups_give_the_same_rows(name, capacity):
    outputs = [PIPELINES[name]().write.collect()]
    (expected,) = naive(outputs)
    (found,) = run_staged(outputs, capacity=capacity)
    assert_same(found, expected, ordered=True)


def test_groups_give_the_same_rows_compiled():
    outputs = [PIPELINES[name]().write.collect() for name in ("computed twice", "texts")]
    for found, expected in zip(
        run_staged(outputs, capacity=5, compiled=True), naive(outputs), strict=True
    ):
        assert_same(found, expected, ordered=True)


@pytest.mark.parametrize("column", range(COLUMNS))
def test_the_first_row_that_fails_is_told(column):
    """Whatever group its column is in, and although others fail behind it."""
    rows = {f"c{k}": [1] * ROWS for k in range(COLUMNS)}
    rows[f"c{column}"][5] = 0
    for k in range(COLUMNS):
        rows[f"c{k}"][7] = 0
    divided = {f"d{k}": 10 // col(f"c{k}") for k in range(COLUMNS)}
    stream = hr.read.memory(rows).select(**divided)
    with pytest.raises(ZeroDivisionError) as caught:
        run_staged([stream.write.collect()], capacity=64)
    said = "\n".join([str(caught.value), *caught.value.__notes__])
    values = [f"c{k}={0 if k == column else 1}" for k in range(COLUMNS)]
    assert f"row: {', '.join(values)}" in said


def test_there_are_groups():
    from headrace.stage.generate.chain import kernel_text
    from headrace.stage.generate.context import Chain

    plan = planned([PIPELINES["some can fail"]().write.collect()])
    *_, last = plan.whole.roots[0].inputs
    nodes = []
    node = last
    while node.inputs:
        nodes.insert(0, node)
        node = node.inputs[0]
    text = kernel_text(Chain(tuple(nodes), node.schema)).text
    rows = text[text.index("def rows(") :]
    assert rows.count("columns_") == text.count("def columns_") > 4
    assert "out_0 = " not in rows
