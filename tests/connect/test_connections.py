"""TCP lines and server-sent events: cut sockets, broken lines, servers that come back, journals."""

import http.server
import json
import pickle
import socket
import threading

import pytest
from tests.connect.data import read_all

import headrace as hr
from headrace.connect import events as sse

engines = pytest.mark.parametrize("engine", ["thread", "node"])
both = pytest.mark.parametrize("journaled", [False, True], ids=["plain", "journal"])
SCHEMA = {"n": int, "at": "timestamp"}


def line(n):
    return json.dumps({"n": n, "at": f"2024-01-01T00:00:{n % 60:02}Z"}).encode() + b"\n"


class Server:
    """Serves each connection in turn what a list says; None cuts it off hard."""

    def __init__(self, *connections):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._held = []
        threading.Thread(target=self._run, args=(connections,), daemon=True).start()

    def _run(self, connections):
        for pieces in connections:
            made, _ = self._listening.accept()
            for piece in pieces:
                if piece is None:  # reset: what was not sent is lost
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                elif piece == "hold":
                    self._held.append(made)
                    break
                else:
                    made.sendall(piece)
            else:
                made.close()
        self._listening.close()


def collected(stream, engine="thread", **options):
    out = stream.write.collect()
    job = hr.run(out, engine=engine, compiled=False, **options)
    return out.result(), job


def journal(folder, journaled):
    return {"journal": folder / "journal"} if journaled else {}


@engines
@both
def test_lines_come_once_and_in_order(tmp_path, engine, journaled):
    data = b"".join(map(line, range(1000)))
    pieces = [data[at : at + 997] for at in range(0, len(data), 997)]  # lines are cut anywhere
    server = Server(pieces)
    stream = hr.read.tcp("127.0.0.1", server.port, schema=SCHEMA, **journal(tmp_path, journaled))
    found, job = collected(stream, engine)
    assert found["n"].to_pylist() == list(range(1000)) and job.status == "finished"


@both
def test_plain_lines(tmp_path, journaled):
    server = Server([b"one\r\ntwo\n\nfour\n"])
    stream = hr.read.tcp("127.0.0.1", server.port, **journal(tmp_path, journaled))
    assert collected(stream)[0]["line"].to_pylist() == ["one", "two", "", "four"]


@both
def test_broken_lines(tmp_path, journaled):
    content = [line(1) + b"nonsense\n" + line(2)]
    options = journal(tmp_path / "a", journaled)
    stream = hr.read.tcp("127.0.0.1", Server(content).port, schema=SCHEMA, **options)
    with pytest.raises(hr.DataError, match="line 2: not JSON"):
        collected(stream)
    options = {"on_error": "skip", "name": "lines", **journal(tmp_path / "b", journaled)}
    stream = hr.read.tcp("127.0.0.1", Server(content).port, schema=SCHEMA, **options)
    found, job = collected(stream)
    assert found["n"].to_pylist() == [1, 2] and job.metrics()["lines"]["skipped"] == 1


@both
def test_a_line_that_is_cut_off_is_an_error_behind_those_before(tmp_path, journaled):
    server = Server([line(1) + line(2)[:-5]])
    stream = hr.read.tcp("127.0.0.1", server.port, schema=SCHEMA, **journal(tmp_path, journaled))
    with pytest.raises(hr.DataError, match="the connection ended in the middle of a line"):
        collected(stream)
    if journaled:
        (kept,) = (tmp_path / "journal").glob("*.json")
        assert kept.read_bytes() == line(1)


@both
def test_the_server_goes_and_comes_back(tmp_path, journaled):
    server = Server([line(1)], [line(2)], [line(3), "hold"])
    options = {"reconnect": 30.0, **journal(tmp_path, journaled)}
    stream = hr.read.tcp("127.0.0.1", server.port, schema=SCHEMA, **options)

    def watch(job):
        if job.progress().rows_out == 3:
            job.stop()

    found, job = collected(stream, watch=watch, seconds=60)
    assert found["n"].to_pylist() == [1, 2, 3] and job.status == "stopped"


@both
def test_nobody_listens(tmp_path, journaled):
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    stream = hr.read.tcp("127.0.0.1", port, schema=SCHEMA, **journal(tmp_path, journaled))
    with pytest.raises(hr.DataError, match=f"tcp 127.0.0.1:{port}: cannot connect: Connection ref"):
        collected(stream)


def test_a_journal_is_read_again_by_others(tmp_path):
    """What Spark does: the driver records, tasks read ranges of what is there."""
    server = Server([line(n) for n in range(10)])
    stream = hr.read.tcp("127.0.0.1", server.port, schema=SCHEMA, journal=tmp_path / "journal")
    source = stream.node.connector
    reader = source.open("files")
    rows, positions = read_all(reader, max_rows=3, timeout=5.0)
    assert [row["n"] for row in rows] == list(range(10))
    task = pickle.loads(pickle.dumps(source))
    for count, place in positions:
        if place is not None:
            again = [row["n"] for row in read_all(task.open("files", None, place))[0]]
            assert again == list(range(count))
    assert task.latest()["files"]["log"] == positions[-1][1]["log"]


# ---- server-sent events ----------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.headers.get("Last-Event-ID"))
        status, kind, body = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given):
        pass


@pytest.fixture
def answering():
    made = []

    def start(*answers):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.asked, server.answers = [], list(answers)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.append(server)
        return server, f"http://127.0.0.1:{server.server_port}/ticks"

    yield start
    for server in made:
        server.shutdown()
        server.server_close()


STREAM = "text/event-stream; charset=utf-8"
BODY = (
    b": a comment\n\nevent: tick\nid: 7\ndata: one\ndata: two\n\n"
    b"data:  spaces\r\n\r\nid: 8\nretry: 1\n\ndata: \xc3\xa9\n\ndata: never ended"
)


@engines
@both
def test_events(tmp_path, answering, engine, journaled):
    _, url = answering((200, STREAM, BODY))
    found, _ = collected(hr.read.events(url, **journal(tmp_path, journaled)), engine)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("tick", "7", "one\ntwo"),
        ("message", "7", " spaces"),
        ("message", "8", "é"),
    ]


def test_events_with_columns(answering):
    _, url = answering((200, STREAM, b'data: {"n": 1,\ndata: "at": "2024-01-01"}\n\n'))
    found, _ = collected(hr.read.events(url, schema=SCHEMA))
    assert found["n"].to_pylist() == [1]


def test_a_connection_goes_on_behind_the_last_event(answering, monkeypatch):
    monkeypatch.setattr(sse, "PAUSE", 0.01)
    first = b"id: 1\ndata: a\n\nid: 2\ndata: cut o"  # the second event is to come again
    server, url = answering(
        (200, STREAM, first), (503, "text/plain", b"busy"), (200, STREAM, b"id: 2\ndata: b\n\n"),
        (404, "text/plain", b""),
    )  # fmt: skip
    with pytest.raises(hr.DataError, match="404"):
        collected(hr.read.events(url, reconnect=30.0))
    assert server.asked == [None, "1", "1", "2"]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ((404, "text/plain", b""), "events http://127.0.0.1:.*/ticks: 404"),
        ((500, "text/plain", b""), "the connection broke: .*Internal Server Error"),
        ((200, "text/html", b"<html>"), "the server gives text/html, not text/event-stream"),
        ((200, STREAM, b"data: {}\n\n"), "line 1: column 'n' is missing"),
    ],
)
def test_what_is_wrong_with_a_server(answering, answer, what):
    _, url = answering(answer)
    with pytest.raises(hr.DataError, match=what):
        collected(hr.read.events(url, schema=SCHEMA))


def test_mistakes():
    with pytest.raises(hr.PipelineError, match="'ftp://x' is not a URL of HTTP"):
        hr.read.events("ftp://x")
    with pytest.raises(hr.PipelineError, match="on_error='no': use one of fail, skip"):
        hr.read.tcp("localhost", 1, on_error="no")


def test_lines_of_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\n\n\xc3\xa9")
    assert collected(hr.read.text(tmp_path))[0]["line"].to_pylist() == ["one", "", "é"]
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\n")
    with pytest.raises(hr.DataError, match="line 2: not UTF-8"):
        collected(hr.read.text(tmp_path))
    kept, job = collected(hr.read.text(tmp_path, on_error="skip", name="lines"))
    assert kept["line"].to_pylist() == ["one"] and job.metrics()["lines"]["skipped"] == 1
