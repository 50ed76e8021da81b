"""The secret that a cluster of `headrace cluster up` shares with the drivers of its user.

Who connects to a cluster without it is turned away: neither another user of this machine nor a web
page in the user's browser can run anything there. It lies in the user's cache folder, and reaches
Spark's programs where other users cannot look: not by their arguments.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from headrace.stage import cache

from .files import check_owner, write_file

VARIABLE = "_SPARK_AUTH_SECRET"  # of the environment: where Spark's servers look for it
SECRET = "spark.authenticate.secret"  # where its drivers do
SETTINGS = {"spark.authenticate": "true"}


def make_secret(master: str) -> str:
    """A new secret for a cluster, kept for its drivers.

    >>> url = "spark://127.0.0.1:1"
    >>> made = make_secret(url)
    >>> secret_of(url) == made, forget_secret(url), secret_of(url)
    (True, None, None)
    """
    made = secrets.token_urlsafe(32)
    write_file(_file(master), made.encode(), lasting=False)
    return made


def secret_of(master: str) -> str | None:
    """The secret of a cluster, if it is one of ours."""
    path = _file(master)
    if not path.exists():
        return None
    check_owner(path)
    return path.read_text()


def forget_secret(master: str) -> None:
    """The cluster is gone."""
    _file(master).unlink(missing_ok=True)


def _file(master: str) -> Path:
    name = master.removeprefix("spark://").replace("localhost", "127.0.0.1").replace(":", "-")
    return cache.folder().parent / "clusters" / f"{name}.secret"
