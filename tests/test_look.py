"""A look at streams: head, show, notebooks and drawings."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

import headrace as hr
from headrace import col
from headrace.connect.memory import MemorySource
from headrace.observe.graph import Graph
from headrace.plan import build
from headrace.plan.errors import PipelineError
from headrace.stream import Stream


def numbers(count=100):
    return hr.read.memory({"n": list(range(count)), "user": ["ann", "b<b>"] * (count // 2)})


def test_head_computes_the_first_rows():
    stream = numbers().filter(col("n") % 2 == 1).with_columns(half=col("n") / 2)
    assert stream.head(2).to_pylist() == [
        {"n": 1, "user": "b<b>", "half": 0.5},
        {"n": 3, "user": "b<b>", "half": 1.5},
    ]
    assert stream.head(0).num_rows == 0
    assert stream.filter(col("n") < 0).head().num_rows == 0


def test_head_of_windows_and_user_functions():
    stream = (
        numbers()
        .map(lambda n, user: n // 10, output="ten", carry=["n", "user"])
        .with_watermark("n", 0)
        .key_by("user")
        .window(hr.tumbling(50))
        .agg(n=hr.count(), top=hr.max("ten"))
    )
    assert stream.head(1).to_pylist() == [{"user": "ann", "window_start": 0, "n": 25, "top": 4}]


def test_head_reads_only_a_piece_of_a_source_without_end():
    stream = hr.read.generate(lambda index: index, output="n")
    assert stream.head(3)["n"].to_pylist() == [0, 1, 2]
    assert stream.filter(col("n") < 0).head(3, rows=50).num_rows == 0


def test_head_commits_and_closes_nothing():
    class Watched(MemorySource):
        touched: list = []

        def committed(self, channel, position):
            self.touched.append("committed")

        def close(self):
            self.touched.append("closed")

    stream = Stream(build.source(Watched({"n": [1, 2]})))
    assert stream.head(1).num_rows == 1
    assert Watched.touched == []
    out = stream.write.collect()
    hr.run(out, engine="thread")
    assert out.result().num_rows == 2


def test_head_of_rows_that_come_once_is_refused():
    stream = hr.read.iterate([{"a": 1}], schema={"a": int})
    with pytest.raises(PipelineError, match="can be read only once"):
        stream.head()


@pytest.mark.parametrize("n", [-1, 2.5, True, "3"])
def test_head_of_a_wrong_number(n):
    with pytest.raises(PipelineError, match="is not a number of rows"):
        numbers().head(n)


def test_head_says_what_is_wrong_with_a_row():
    stream = hr.read.memory({"n": [0]}).with_columns(x=1 // col("n"))
    with pytest.raises(ZeroDivisionError):
        stream.head()


def test_show_prints_a_table(capsys):
    numbers().show(2)
    assert capsys.readouterr().out.splitlines() == ["n  user", "─  ────", "0  ann", "1  b<b>"]
    numbers().filter(col("n") < 0).show()
    assert capsys.readouterr().out.splitlines()[-1] == "(no rows)"


def test_notebooks_show_rows_and_types():
    said = numbers(4)._repr_html_()
    table = ElementTree.fromstring(said)
    cells = [[cell.text for cell in row] for row in table]
    assert cells == [["n", "user"], ["int64", "string"], ["0", "ann"], ["1", "b<b>"], ["2", "ann"],
                     ["3", "b<b>"]]  # fmt: skip


def test_notebooks_show_columns_where_rows_cannot_be_had():
    failing = hr.read.memory({"n": [0]}).with_columns(x=1 // col("n"))
    assert failing._repr_html_().count("<tr") == 2
    once = hr.read.iterate([{"a": 1}], schema={"a": int})
    assert once._repr_html_().count("<tr") == 2


def test_graphs_of_branches():
    stream = numbers()
    both = stream.filter(col("user") == "ann").union(stream.filter(col("n") > 1))
    graph = both.graph()
    assert isinstance(graph, Graph)
    assert len(graph.labels) == 4
    assert sorted(graph.edges) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert str(graph).splitlines()[0] == "flowchart TD"
    assert "(n &gt; 1)" in graph.mermaid


def test_graphs_of_jobs_have_rates():
    kept = numbers().filter(col("n") > 1).write.collect()
    job = hr.run(kept, engine="thread", compiled=False)
    graph = job.graph()
    assert [label[0].split()[0] for label in graph.labels] == ["source", "filter", "sink"]
    assert all(label[-1].endswith(" rows/s") for label in graph.labels)
    assert "rows/s" in graph.mermaid and graph.svg.count("rows/s") == 3
    again = Graph.told(*json.loads(json.dumps([graph.labels, graph.edges])))
    assert again == graph


def test_drawings_are_svg_without_overlaps():
    stream = numbers()
    graph = stream.filter(col("user") == "<").union(stream.filter(col("n") > 1)).graph()
    drawing = ElementTree.fromstring(graph._repr_svg_())
    boxes = [e for e in drawing if e.tag.endswith("rect")]
    assert len(boxes) == 4
    assert len({(box.get("x"), box.get("y")) for box in boxes}) == 4
    assert sum(e.tag.endswith("line") for e in drawing) == 4
