"""What `headrace dev` fetches is what it was."""

from pathlib import Path

import pytest

from headrace.dev import jars
from headrace.dev.errors import Unavailable
from headrace.dev.jars import KAFKA, Program, check


def test_jars_by_their_digests(tmp_path, monkeypatch):
    """One that was changed, one too many and one too few are refused, by name."""
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode())
    listed = [f"{jars.hashlib.sha256(n.encode()).hexdigest()}  {n}" for n in ("a.jar", "b.jar")]
    monkeypatch.setattr(jars, "__file__", str(tmp_path / "beside" / "jars.py"))
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "list").write_text("\n".join(listed))
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).rename(folder / name)
    program = Program("X", ("o", "m", "1"), (), 17, digests="list")
    check(program, folder)
    (folder / "c.jar").touch()
    with pytest.raises(Unavailable, match=r"c\.jar .* differ from the list"):
        check(program, folder)
    (folder / "c.jar").unlink()
    (folder / "b.jar").write_bytes(b"other")
    with pytest.raises(Unavailable, match=r"b\.jar .* are not run\n  fix"):
        check(program, folder)
    (folder / "b.jar").unlink()
    with pytest.raises(Unavailable, match=r"b\.jar"):
        check(program, folder)


def test_the_list_of_kafka():
    """It names the jars of the version that is fetched."""
    lines = (Path(jars.__file__).parent / KAFKA.digests).read_text().splitlines()
    names = {line.split()[1] for line in lines}
    assert f"kafka_2.13-{KAFKA.version}.jar" in names and "slf4j-simple-1.7.36.jar" in names
    assert all(len(line.split()[0]) == 64 for line in lines)
