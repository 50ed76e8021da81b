"""Java programs from Maven Central, fetched by the Ivy that comes with pyspark.

Which jars they are, and what is in them, is known before: a list of their digests lies beside this
module. What is not on it, or differs from it, is not run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import places
from .errors import Unavailable
from .java import java

FETCH_SECONDS = 600


Coordinates = tuple[str, str, str]  # organisation, module, version


@dataclass(frozen=True)
class Program:
    """What to fetch: a main jar and some beside it, from which the rest follows."""

    name: str
    main: Coordinates
    beside: tuple[Coordinates, ...]
    java: int  # the oldest that it runs on
    alone: bool = False  # nothing but these jars: what they need is there already
    digests: str = ""  # the file beside this module that lists its jars; empty: none does

    @property
    def version(self) -> str:
        """The version of the main jar."""
        return self.main[2]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


KAFKA = Program(
    "Kafka",
    ("org.apache.kafka", "kafka_2.13", "4.3.1"),
    # What Kafka logs goes nowhere without a logger, not even why it cannot start.
    beside=(("org.slf4j", "slf4j-simple", "1.7.36"),),
    java=17,
    digests="kafka-4.3.1.sha256",
)

_IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="headrace" module="dev"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->{}"/>'


def fetched(program: Program) -> Path | None:
    """The folder with all jars of a program, if they are here already."""
    path = _folder(program)
    return path if path.is_dir() else None


def fetch(program: Program) -> Path:
    """The folder with all jars of a program, which are downloaded where they are missing.

    They appear in one rename, so that a download that died leaves nothing half done.
    """
    with places.alone(places.folder() / "jars.lock"):
        there = fetched(program)
        if there is not None:
            check(program, there)
            return there
        chosen, ivy = java(program.java, str(program)), _ivy(program)
        with tempfile.TemporaryDirectory(dir=places.folder(), prefix="fetch-") as work:
            _run_ivy(chosen, ivy, program, Path(work))
            check(program, Path(work) / "jars")
            os.rename(Path(work) / "jars", _folder(program))
    return _folder(program)


def check(program: Program, folder: Path) -> None:
    """A jar that is not on the list of a program, or is not what it was, is Unavailable."""
    if not program.digests:
        return
    lines = (Path(__file__).parent / program.digests).read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    found = {path.name: path for path in folder.iterdir()}
    wrong = sorted(set(listed) ^ set(found)) or [
        name
        for name, digest in listed.items()
        if hashlib.sha256(found[name].read_bytes()).hexdigest() != digest
    ]
    if wrong:
        raise Unavailable(
            f"{program}: {', '.join(wrong[:3])} in {folder} differ from the list of jars that "
            "headrace knows, and are not run\n  fix: remove that folder, and try again; if it "
            "stays so, somebody on the way has changed them"
        )


def _folder(program: Program) -> Path:
    return places.folder() / f"{program.name.lower()}-{program.version}"


def _ivy(program: Program) -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise Unavailable(
            f"{program} is fetched by the Ivy that comes with pyspark, which is not installed; "
            "pip install 'pyspark==4.3.*'"
        )
    return found[0]


def _run_ivy(chosen: str, ivy: Path, program: Program, work: Path) -> None:
    taken = "master" if program.alone else "default"
    wanted = "".join(_DEPENDENCY.format(*each, taken) for each in (program.main, *program.beside))
    (work / "ivy.xml").write_text(_IVY_FILE.format(dependencies=wanted))
    # Ivy writes to folders of its own below the user's home, unless told otherwise.
    command = [chosen, f"-Divy.default.ivy.user.dir={work / 'user'}", "-jar", str(ivy)]
    command += ["-warn", "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml")]
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", str(work / "jars" / "[artifact]-[revision].[ext]")]
    what = f"{program} could not be fetched from Maven Central"
    try:
        done = subprocess.run(
            command, cwd=work, capture_output=True, text=True, timeout=FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} within {FETCH_SECONDS} s; is the network slow?") from None
    _, module, version = program.main
    if done.returncode or not (work / "jars" / f"{module}-{version}.jar").exists():
        raise Unavailable(
            f"{what}: {_reason(done.stdout + done.stderr)}. It needs the network once; a proxy is "
            "given to Java by JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...'"
        )


def _reason(said: str) -> str:
    """The line of Ivy's output that tells most."""
    lines = [line.strip(" \t:") for line in said.splitlines() if line.strip(" \t:")]
    for sign in ("Exception", "refused", "not found", "UNRESOLVED", "FAILED"):
        for line in lines:
            if sign in line:
                return line[:200]
    return lines[-1][:200] if lines else "no reason was given"
