"""Which Java there is, and what to do where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from .errors import Unavailable


def java(at_least: int, what: str) -> str:
    """The path of a Java of a version or newer, which `what` needs; Unavailable if there is none.

    JAVA_HOME goes before the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    install = (
        f"install one: apt install openjdk-{at_least}-jre-headless (Debian, Ubuntu), "
        f"dnf install java-{at_least}-openjdk-headless (Fedora, Red Hat), "
        "or set JAVA_HOME to one that is there"
    )
    if path is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise Unavailable(
            f"{what} needs Java {at_least} or newer, and there is none {where}; {install}"
        )
    found = _version(path)
    if found is None:
        raise Unavailable(f"{what} needs Java {at_least}, and {path} does not run; {install}")
    if found < at_least:
        raise Unavailable(
            f"{what} needs Java {at_least} or newer, and {path} is Java {found}; {install}"
        )
    return path


def _version(path: str) -> int | None:
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
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
