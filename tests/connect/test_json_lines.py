"""JSON lines: what is wrong is said with file, line and column; what is right is read exactly."""

import datetime as dt
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.connect.data import read_all

import headrace as hr
from headrace.connect import text_format
from headrace.connect.json_decode import decode, decode_each
from headrace.connect.json_lines import JsonSource
from headrace.plan.errors import DataError
from headrace.plan.schema import Schema
from headrace.plan.types import SCALARS, optional


def source(folder, content, schema=None, **options):
    data = content if isinstance(content, bytes) else content.encode()
    (folder / "a.json").write_bytes(data)
    return JsonSource(folder, schema=schema or {"n": int}, **options)


@pytest.mark.parametrize(
    ("line", "kind", "what"),
    [
        ("nonsense", int, "not JSON: Expecting value: line 1 column 1"),
        ('{"n": 1', int, "not JSON: Expecting ',' delimiter"),
        ('{"n": 1} {"n": 2}', int, "not JSON: Extra data"),
        ("null", int, "None is not an object with a value for each column"),
        ("[1]", int, r"\[1\] is not an object"),
        ('{"m": 1}', int, "column 'n' is missing, and the schema says int64; use optional"),
        ('{"n": null}', int, "column 'n' is null, and the schema says int64; use optional"),
        ('{"n": 1.5}', int, "column 'n': 1.5 is not a value of int64"),
        ('{"n": true}', int, "column 'n': True is not a value of int64"),
        ('{"n": "1"}', int, "column 'n': '1' is not a value of int64"),
        ('{"n": 99999999999999999999}', int, "column 'n': 99999999999999999999 does not fit int64"),
        ('{"n": 300}', "int8", "column 'n': 300 does not fit int8"),
        ('{"n": 1}', str, "column 'n': 1 is not a value of string"),
        ('{"n": "\\ud800"}', str, "column 'n': '.*' is not a value of string"),
        ('{"n": 1}', "timestamp", "column 'n': 1 is not a text with a timestamp in ISO 8601"),
        ('{"n": "soon"}', "timestamp", "column 'n': 'soon' is not a value of timestamp"),
        ('{"n": "0000-01-01"}', "date", "column 'n': '0000-01-01' is not a value of date"),
        ('{"n": "?"}', "binary", "column 'n': '\\?' is not a value of binary"),
        ("[" * 100_000, int, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, line, kind, what):
    good = {"timestamp": '{"n": "2024-01-01"}', "date": '{"n": "2024-01-01"}', str: '{"n": "x"}'}
    right = good.get(kind, '{"n": "eA=="}' if kind == "binary" else '{"n": 1}')
    for lines in ([line], [right, "", line, right]):
        made = source(tmp_path, "\n".join(lines), {"n": kind})
        number = lines.index(line) + 1
        with pytest.raises(DataError, match=f"^{tmp_path}/a.json, line {number}: .*{what}"):
            read_all(made.open("files"))
        made = source(tmp_path, "\n".join(lines), {"n": kind}, on_error="skip")
        assert made.table().num_rows == lines.count(right) and made.skipped == 1


def test_texts_that_are_not_utf8(tmp_path):
    made = source(tmp_path, b'{"n": "x"}\n{"n": "\xff"}\n', {"n": str})
    with pytest.raises(DataError, match=r"a.json, line 2: not JSON: 'utf-8' codec can't decode"):
        made.table()


def test_values_of_every_type(tmp_path):
    fields = {
        "at": "timestamp",
        "day": "date",
        "bytes": "binary",
        "f": float,
        "small": "float32",
        "on": bool,
        "text": str,
    }
    lines = [
        '{"at": "2024-01-01T00:00:00Z", "day": "2024-02-03", "bytes": "AAE=", "f": 1, "small": 0.1,'
        ' "on": true, "text": "\\u00e4\\n", "other": {"deep": [1, null]}}',
        '{"at": "2024-01-01 02:00:00.5+02:00", "f": "-Infinity", "small": NaN, "text": ""}',
        '{"at": "2024-01-01", "f": "NaN"}',
    ]
    schema = Schema.of({name: optional(SCALARS.get(k, k)) for name, k in fields.items()})
    for skipped in (0, 1, 2):  # together and alone: fast and line by line
        rows = source(tmp_path, "\n".join(lines[skipped:]), schema).table().to_pylist()
        moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
        times = [moment, moment + dt.timedelta(seconds=0.5), moment][skipped:]
        assert [row["at"] for row in rows] == times
        assert math.isnan(rows[-1]["f"]) and rows[-1]["text"] is None
    first = source(tmp_path, lines[0], schema).table().to_pylist()[0]
    assert first["day"] == dt.date(2024, 2, 3) and first["bytes"] == b"\0\1"
    assert (first["f"], first["on"], first["text"]) == (1.0, True, "ä\n")


def test_positions_are_lines_whatever_is_in_them(tmp_path):
    content = '\ufeff{"n": 0}\r\n\n  \n{"n": 3}\nx\n{"n": 5}\n\n'
    made = source(tmp_path, content, on_error="skip")
    rows, positions = read_all(made.open("files"), max_rows=1)
    assert [row["n"] for row in rows] == [0, 3, 5] and made.skipped == 1
    # how often it is polled behind the last row is a matter of time
    assert list(dict.fromkeys(place["row"] for _, place in positions)) == [1, 4, 6, 7]
    for start in range(8):
        for stop in range(start, 8):
            ends = [{"file": "a.json", "row": row} for row in (start, stop)]
            found = [row["n"] for row in read_all(made.open("files", *ends))[0]]
            assert found == [n for n in (0, 3, 5) if start <= n < stop]
    assert made.latest() == {"files": {"file": "a.json", "row": 7}}


def test_what_lies_outside_a_range_is_not_looked_at(tmp_path):
    made = source(tmp_path, '{"n": 0}\n{"n": 1}\nx\n{"n": 3}\n')
    assert read_all(made.open("files", None, {"file": "a.json", "row": 2}))[0] == [
        {"n": 0},
        {"n": 1},
    ]
    assert read_all(made.open("files", {"file": "a.json", "row": 3}))[0] == [{"n": 3}]


VALUES = "0 -0 1 -0.0 1e2 1.5 1e-400 1e400 01 - NaN -NaN Inf -Infinity null true [] {} x".split()
TEXTS = ["", "1", "\\u00e4", "\\ud800", "a\\nb", "ä", "NaN", "2024-01-01", "2024-01-01T10:00:00Z"]
TEXTS += ["2024-01-01 10:00:00.123456+02:00", "0000-01-01", "2024-02-30", "eA==", "eA="]
TEXTS += ["10:00", "10:00:00.5", "10:00:00Z", "24:00", "10"]
SHAPES = ['{"n": %s}', ' {"m": [%s, {"n": 1}], "n":%s } ', '{"n": %s, "n": 1}', "%s", '{"n": %s}%s']


@st.composite
def lines_of_json(draw):
    """Mostly right ones: the fast way gives up at the first that is wrong."""
    values = st.sampled_from(VALUES) | st.sampled_from(TEXTS).map('"{}"'.format)
    kinds = draw(st.lists(values, min_size=1, max_size=2))
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        shape = draw(st.sampled_from(SHAPES[:2] * 4 + SHAPES))
        lines.append(shape.replace("%s", draw(st.sampled_from(kinds))).encode())
    return lines


@settings(max_examples=600)
@given(lines_of_json(), st.sampled_from(list(SCALARS.values())), st.booleans())
def test_both_ways_to_decode_agree(lines, kind, nullable):
    """Whatever the fast way takes, the other takes too, with the same values."""
    columns = Schema.of({"n": optional(kind) if nullable else kind})
    quick = decode(lines, columns)
    if quick is not None:
        rows, good, wrong = decode_each(lines, columns)
        assert not wrong and good == list(range(len(lines)))
        assert str(rows.to_pylist()) == str(quick.to_pylist())


ODD = {
    "a number of 5,000 digits, unread": b'{"n": 1, "o": %s}' % (b"1" * 5000),
    "a number of 5,000 digits": b'{"n": %s}' % (b"1" * 5000),
    "a number of 400 digits": b'{"n": -%s}' % (b"1" * 400),
    "a number that is too large": b'{"n": 1e400}',
    "deep lists": b'{"n": 1, "o": %s%s}' % (b"[" * 5000, b"]" * 5000),
    "deep objects": b'{"n": 1, "o": %s1%s}' % (b'{"a":' * 5000, b"}" * 5000),
    "half a pair": b'{"n": 1, "o": "\\ud800"}',
    "a name twice": b'{"n": 1, "n": 2}',
    "no JSON": b"nothing",
}


@pytest.mark.parametrize("kind", [int, float, str])
@pytest.mark.parametrize("odd", ODD)
def test_neighbours_do_not_decide_about_a_line(tmp_path, odd, kind):
    good = b'{"n": "x"}' if kind is str else b'{"n": 7}'
    fates = set()
    for around in ([], [good], [b"bad"], [b'{"n": []}', good], [good] * 3):
        lines = [*around, ODD[odd], *around]
        made = source(tmp_path, b"\n".join(lines), {"n": optional(kind)}, on_error="skip")
        found = made.table()["n"].to_pylist()
        mine = len(found) > sum(line == good for line in lines)
        fates.add((mine, str(found[len(found) // 2]) if mine else ""))
    assert len(fates) == 1


@given(lines_of_json(), lines_of_json(), st.sampled_from(list(SCALARS.values())))
def test_lines_have_their_fate_alone(lines, others, kind):
    columns = Schema.of({"n": optional(kind)})

    def fate(together, number):
        rows = decode(together, columns)
        good = range(len(together))
        if rows is None:
            rows, good, _ = decode_each(together, columns)
        return str(rows.to_pylist()[list(good).index(number)]) if number in good else "refused"

    together = [*others, *lines]
    for number, line in enumerate(lines, len(others)):
        assert fate(together, number) == fate([line], 0)


def test_how_long_a_line_may_be_does_not_depend_on_where_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "CHUNK_BYTES", 16)
    monkeypatch.setattr(text_format, "LONGEST", 40)
    for before in range(20):
        for length, fits in ((40, True), (41, False)):
            line = '{"n": "' + "x" * (length - 9) + '"}'
            made = source(tmp_path, " " * before + "\n" + line + "\n", {"n": str})
            if fits:
                assert made.table().num_rows == 1
            else:
                with pytest.raises(DataError, match="line 2: longer than"):
                    made.table()


def test_a_bare_null_does_not_kill_the_process():
    code = (
        "from headrace.connect.json_decode import decode\n"
        "from headrace.plan.schema import Schema\n"
        "columns = Schema.of({'n': int})\n"
        "more = [b'{}', b'null']\n"
        "for lines in ([b'null'], [b' null ', b'{}'], more, [b'\\xef\\xbb\\xbfnull']):\n"
        "    assert decode(lines, columns) is None\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_lines_longer_than_a_chunk_and_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(text_format, "CHUNK_BYTES", 16)
    text = "x" * 100
    made = source(tmp_path, f'{{"n": "{text}"}}\n{{"n": "y"}}', {"n": str})
    assert made.table()["n"].to_pylist() == [text, "y"]
    assert made.latest()["files"]["row"] == 2
    monkeypatch.setattr(text_format, "LONGEST", 50)
    with pytest.raises(DataError, match=r"a.json, line 1: longer than .*; is there one row"):
        made.table()


def test_options_are_checked(tmp_path):
    with pytest.raises(DataError, match="on_error='ignore': use one of fail, skip"):
        JsonSource(tmp_path, schema={"n": int}, on_error="ignore")


@pytest.mark.parametrize("engine", ["thread", "node"])
def test_skipped_lines_are_a_metric(tmp_path, engine):
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": "x"}\nnothing\n{"n": 3}\n')
    lines = hr.read.json(tmp_path, schema={"n": int}, on_error="skip", name="lines")
    job = hr.run(lines.write.null(), engine=engine, compiled=False)
    measured = job.metrics()["lines"]
    assert (measured["rows_in"], measured["skipped"]) == (2, 2)
