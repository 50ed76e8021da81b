"""CSV: records are those of Python, values are Arrow's, what is wrong is said with its line."""

import csv
import io
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.connect.data import read_all, tables

import headrace as hr
from headrace.connect import text_format
from headrace.connect.csv_files import CsvSource
from headrace.connect.csv_records import Dialect, _cut, _walk, chunks
from headrace.connect.csv_sink import CsvWriter
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional


def source(folder, content, schema=None, **options):
    data = content if isinstance(content, bytes) else content.encode()
    (folder / "a.csv").write_bytes(data)
    return CsvSource(folder, schema=schema, **options)


# ---- what is wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("x,a", int, "column 'n': 'x' is not a value of int64"),
        ("1.5,a", int, "column 'n': '1.5' is not a value of int64"),
        ("300,a", "int8", "column 'n': '300' is not a value of int8"),
        (",a", int, r"column 'n' is null \(''\), and the schema says int64; use optional\(int64\)"),
        ('"",a', optional(int), "column 'n': '' is not a value of int64"),
        ("soon,a", "timestamp", "column 'n': 'soon' is not a value of timestamp"),
        ("0000-01-01,a", "date", "column 'n': '0000-01-01' is not a value of date"),
        ("?,a", "binary", r"column 'n': '\?' is not a value of binary"),
        ("maybe,a", bool, "column 'n': 'maybe' is not a value of bool"),
        ("1", int, "1 value, and the file has 2 columns"),
        ("1,a,b", int, "3 values, and the file has 2 columns"),
        ('"1"2,a', int, "something follows behind the quote that ends a value"),
        ("1,a\rb", int, "a carriage return inside a value that is not quoted"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, line, kind, what):
    good = {"timestamp": "2024-01-01", "date": "2024-01-01", "binary": "eA==", bool: "true"}
    right = f'{good.get(kind, "1")},"a\nb"'
    for lines in ([line], [right, "", line, right], [line, right] * 3):
        before = "".join(f"{each}\n" for each in lines[: lines.index(line)])
        number = 2 + before.count("\n")
        content = "n,text\n" + "\n".join(lines) + "\n"
        made = source(tmp_path, content, {"n": kind, "text": str})
        with pytest.raises(DataError, match=f"^{tmp_path}/a.csv, line {number}: .*{what}"):
            made.table()
        made = source(tmp_path, content, {"n": kind, "text": str}, on_error="skip")
        assert made.table().num_rows == lines.count(right)
        assert made.skipped == lines.count(line)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('n,t\n1,"a\n2,b\n', "line 2: a quote is opened here and never closed"),
        ('n,t\n1,"a\n2,"b"\n', "line 2: a quote is opened here, .* in line 3, so it is not known"),
        ('n,t\n1,a\n2,"b\n3,"c\n4,d"e"\n', "line 3: a quote is opened here, .* in line 4"),
    ],
)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_rows_that_nobody_knows_the_end_of_are_never_skipped(tmp_path, content, what, on_error):
    made = source(tmp_path, content, {"n": int, "t": str}, on_error=on_error)
    with pytest.raises(DataError, match=what):
        made.table()


def test_texts_that_are_not_utf8(tmp_path):
    made = source(tmp_path, b"n,t\n1,x\n2,\xff\n", {"n": int, "t": str})
    with pytest.raises(DataError, match=r"a.csv, line 3: column 't': '.*' is not UTF-8"):
        made.table()
    # a column that nobody wants is not looked at
    assert source(tmp_path, b"n,t\n1,x\n2,\xff\n", {"n": int}).table().num_rows == 2


def test_a_file_without_anything_names_no_columns(tmp_path):
    (tmp_path / "a.csv").touch()
    with pytest.raises(hr.PipelineError, match=r"a.csv has nothing that names columns; give sch"):
        hr.read.csv(tmp_path / "a.csv")


def test_headers_that_do_not_fit(tmp_path):
    with pytest.raises(DataError, match=r"a.csv has no column 'm' \(int64\)"):
        source(tmp_path, "n,t\n1,a\n", {"m": int}).table()
    with pytest.raises(DataError, match="several columns named 'n'"):
        source(tmp_path, "n,n\n1,2\n")
    with pytest.raises(DataError, match="line 1: not a record"):
        source(tmp_path, 'n,"t"x\n1,2\n')


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"delimiter": ",,"}, "delimiter=',,': use one ASCII character"),
        ({"delimiter": "\n"}, "delimiter='.n': use one ASCII character"),
        ({"delimiter": '"'}, "delimiter and quote are both"),
        ({"on_error": "ignore"}, "on_error='ignore': use one of fail, skip"),
    ],
)
def test_options_are_checked(tmp_path, options, what):
    with pytest.raises(DataError, match=what):
        CsvSource(tmp_path, schema={"n": int}, **options)


# ---- what is right ---------------------------------------------------------------------------


def test_nulls_and_empty_texts(tmp_path):
    content = 'a,b,c\n,,1\n"","",\nNA,NA,NA\n"NA","NA",4\n'
    schema = {"a": optional(str), "b": str, "c": optional(int)}
    found = source(tmp_path, content, schema, nulls=["", "NA"]).table().to_pylist()
    assert [row["a"] for row in found] == [None, "", None, "NA"]
    assert [row["b"] for row in found] == ["", "", "NA", "NA"]  # words are texts where null is not
    assert [row["c"] for row in found] == [1, None, None, 4]


def test_columns_by_name_and_without_a_header(tmp_path):
    (tmp_path / "b.csv").write_text("t,extra,n\ny,,2\n")
    made = source(tmp_path, "n,t\r\n1,x\r\n", {"n": int, "t": str})
    assert made.table().to_pylist() == [{"n": 1, "t": "x"}, {"n": 2, "t": "y"}]
    (tmp_path / "b.csv").unlink()
    made = source(
        tmp_path, "1|x\n2|'y|'", {"n": int, "t": str}, header=False, delimiter="|", quote="'"
    )
    assert made.table().to_pylist() == [{"n": 1, "t": "x"}, {"n": 2, "t": "y|"}]
    made = source(tmp_path, '1;"x\n', header=False, delimiter=";", quote="")
    assert made.table().to_pylist() == [{"f0": 1, "f1": '"x'}]


def test_types_are_guessed(tmp_path):
    content = (
        "i,f,b,d,t,s,nothing,time\n1,1.5,true,2024-01-31,2024-01-31T10:00:00,x,,10:00:00\n,,,,,,,\n"
    )
    kinds = ["int64", "float64", "bool", "date", "timestamp", "string", "string", "time"]
    made = source(tmp_path, content)
    assert [field.type for field in made.schema()] == [optional(SCALARS[kind]) for kind in kinds]
    assert made.table()["s"].to_pylist() == ["x", None]
    made = source(tmp_path, "n,t\n1,a\n2\n", on_error="skip")
    assert repr(made.schema()) == "Schema(n: optional(int64), t: optional(string))"
    assert made.table().num_rows == 1 and made.skipped == 1
    with pytest.raises(DataError, match="line 3: 1 value, and the file has 2 columns; types were"):
        source(tmp_path, "n,t\n1,a\n2\n")


def test_what_does_not_fit_the_guess(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "CHUNK_BYTES", 16)
    made = source(tmp_path, "n\n" + "1\n" * 20 + "x\n")
    with pytest.raises(DataError, match=r"line 22: .*'x' is not .* int64; types were guessed"):
        made.table()


def test_one_column_has_no_empty_lines(tmp_path):
    made = source(tmp_path, "n\n1\n\n3\n", {"n": optional(int)})
    assert made.table()["n"].to_pylist() == [1, None, 3]


def test_a_file_without_anything_has_no_rows(tmp_path):
    assert source(tmp_path, "", {"n": int}).table().num_rows == 0
    assert source(tmp_path, "n\n", {"n": int}).table().num_rows == 0
    assert source(tmp_path, "n\n").schema().names == ("n",)


def test_positions_are_records_whatever_is_in_them(tmp_path):
    content = '\ufeffn,t\r\n0,"a\nb"\r\n\n\r\n3,\nx,y\n5,"""q"""\n\n'
    made = source(tmp_path, content, {"n": int, "t": str}, on_error="skip")
    rows, positions = read_all(made.open("files"), max_rows=1)
    assert [row["n"] for row in rows] == [0, 3, 5] and made.skipped == 1
    assert list(dict.fromkeys(place["row"] for _, place in positions)) == [1, 4, 6, 7]
    for start in range(8):
        for stop in range(start, 8):
            ends = [{"file": "a.csv", "row": row} for row in (start, stop)]
            found = [row["n"] for row in read_all(made.open("files", *ends))[0]]
            assert found == [n for n in (0, 3, 5) if start <= n < stop]
    assert made.latest() == {"files": {"file": "a.csv", "row": 7}}


def test_no_column_is_wanted(tmp_path):
    made = source(tmp_path, "n,t\n1,a\n2,b\n", {"n": int, "t": str})
    batch = made.open("files", columns=[]).poll(10, 0.0)
    assert (batch.rows.num_rows, batch.rows.num_columns) == (2, 0)


# ---- against Python --------------------------------------------------------------------------

SIGNS = st.lists(st.sampled_from(["a", ",", '"', '""', "\n", "\r\n", '"a"', ',"', '",', "é"]))


@settings(max_examples=600)
@given(SIGNS.map("".join), st.integers(1, 9))
def test_records_are_those_of_python(text, size):
    """Whatever we take for records, Python's csv module takes, too, with the same values."""
    data = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "CHUNK_BYTES", size)
        try:
            found = [
                Dialect().split(chunk.record(number))
                for chunk in chunks(io.BytesIO(data), Dialect(), "x")
                for number in range(len(chunk))
                if number not in chunk.bad
            ]
            bad = None
        except DataError as error:
            bad = str(error)
    ended = text if not text or text.endswith("\n") else text + "\n"
    try:
        lines = iter(ended.splitlines(keepends=True))
        expected = [row or [""] for row in csv.reader(lines, strict=True)]
    except csv.Error:
        return  # they differ in how much of it they take
    assert bad is None and found == expected


def cut_into(data, size):
    """Records and bad ones of a file that is read in pieces; None where it is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "CHUNK_BYTES", size)
        try:
            made = list(chunks(io.BytesIO(data), Dialect(), "x"))
        except DataError:
            return None
    records = [chunk.record(number) for chunk in made for number in range(len(chunk))]
    bad = {chunk.first + number for chunk in made for number in chunk.bad}
    assert all(Dialect().split(records[number]) is None for number in bad)
    return records, [chunk.line_of(n) for chunk in made for n in range(len(chunk))]


@settings(max_examples=600)
@example('4,,5","two\nlines",1970\n', 7)
@example('a"\n"b"c\n"d\r\n"\r\n', 1)
@given(
    st.lists(SIGNS | st.just(["\r"])).map(lambda parts: "".join(map("".join, parts))),
    st.integers(1, 9),
)
def test_pieces_in_which_a_file_is_read_do_not_matter(text, size):
    assert cut_into(text.encode(), size) == cut_into(text.encode(), 1 << 20)


@settings(max_examples=400)
@given(SIGNS.map("".join))
def test_both_ways_to_cut_agree(text):
    data = text.encode() + b"\n"
    try:
        cut = _cut(data, Dialect(), "x", 1)
    except DataError:
        return
    if not cut.bad:
        walked = _walk(data, Dialect(), "x", 1)
        assert (cut.ends.tolist(), cut.lines) == (walked.ends.tolist(), walked.lines)
        records = [data[start:end] for start, end in pairwise([0, *cut.ends.tolist()])]
        assert cut.empty or not {b"\n", b"\r\n"} & set(records)


@settings(max_examples=200)
@given(tables(), st.integers(1, 200))
def test_what_is_written_is_read_back(tmp_path_factory, made, size):
    schema, table = made
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    writer = CsvWriter(path, schema, Dialect())
    writer.add(writer.encoded(table))
    writer.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "CHUNK_BYTES", size)
        assert CsvSource(path, schema=schema).table().to_pylist() == table.to_pylist()


@given(
    st.lists(
        st.sampled_from(["1,a", "x,a", "1", ',""', '2,"a\nb"', "", "3,é", "4,a,b"]), max_size=9
    ),
    st.integers(1, 40),
)
def test_lines_have_their_fate_alone(tmp_path_factory, lines, size):
    folder = tmp_path_factory.mktemp("csv")
    schema = Schema.of({"n": int, "t": str})

    def rows(some):
        made = source(folder, "n,t\n" + "".join(f"{x}\n" for x in some), schema, on_error="skip")
        return made.table().to_pylist(), made.skipped

    alone = [rows([line]) for line in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_format, "CHUNK_BYTES", size)
        found, skipped = rows(lines)
    assert found == [row for some, _ in alone for row in some]
    assert skipped == sum(count for _, count in alone)


# ---- engines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_skipped_lines_are_a_metric(tmp_path, engine):
    (tmp_path / "a.csv").write_text("n\n1\nx\n,\n3\n")
    lines = hr.read.csv(tmp_path, schema={"n": int}, on_error="skip", name="lines")
    job = hr.run(lines.write.null(), engine=engine, compiled=False)
    measured = job.metrics()["lines"]
    assert (measured["rows_in"], measured["skipped"]) == (2, 2)
