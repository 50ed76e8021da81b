"""A disk that forgets, and a hand that stops a process at a call: for jobs that tests kill.

Python imports this by itself where the folder is on its path, in drivers, planners and workers.
The environment says what to do (JSON in HEADRACE_DISK):

root     the disk: what lies below it is lost in a crash, unless it was synced
kept     where copies of what was synced are kept (`tests/spark/crashes.py` puts them together)
trace    a file for every call that is seen: who, what, before or after, which kind of path
aim      [who, what, when, kind, skip]: stop there for good, when so many were seen before
mark     the file that is made by the process that has stopped
slow     seconds that each of these calls takes longer
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import sys
import threading
import time

_GIVEN = json.loads(os.environ.get("HEADRACE_DISK", "null"))
_seen = {}


def _who():
    program = " ".join(sys.argv[:1])
    if "daemon" in program:
        return "worker"
    return "planner" if "runner" in program else "driver"


def _kind(path):
    """Paths of one kind look the same: random names and numbers are left out."""
    inside = os.path.relpath(path, _GIVEN["root"])
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", inside)


def _point(what, when, path):
    if not os.path.abspath(path).startswith(_GIVEN["root"] + os.sep):
        return
    point = [_who(), what, when, _kind(path)]
    if _GIVEN.get("trace"):
        line = (json.dumps(point) + "\n").encode()
        descriptor = os.open(_GIVEN["trace"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)
    aim = _GIVEN.get("aim")
    if aim and point == aim[:-1]:
        number = _seen[_who()] = _seen.get(_who(), 0) + 1
        if number > aim[-1]:
            try:
                os.close(os.open(_GIVEN["mark"], os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return  # another process stands there
            os.kill(os.getpid(), signal.SIGSTOP)


def _keep(descriptor):
    """What was synced is on the disk, as it is now; its number is not given to another file."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    if not (path + os.sep).startswith(_GIVEN["root"] + os.sep):
        return
    found = os.fstat(descriptor)
    waiting = os.path.join(_GIVEN["kept"], f"{os.getpid()}-{threading.get_ident()}.part")
    if stat.S_ISDIR(found.st_mode):
        entries = {}
        for entry in os.scandir(path):
            try:
                entries[entry.name] = [entry.inode(), entry.is_dir(follow_symlinks=False)]
                if not entries[entry.name][1]:
                    _pin(entry.path, entry.inode())
            except FileNotFoundError:
                entries.pop(entry.name, None)
        with open(waiting, "w") as file:
            json.dump(entries, file)
        os.rename(waiting, os.path.join(_GIVEN["kept"], f"{found.st_ino}.folder"))
    else:
        _pin(path, found.st_ino)
        shutil.copyfile(path, waiting)
        os.rename(waiting, os.path.join(_GIVEN["kept"], f"{found.st_ino}.file"))


def _pin(path, number):
    try:
        os.link(path, os.path.join(_GIVEN["kept"], f"{number}.pin"))
    except FileExistsError:
        pass


def _around(module, name):
    call = getattr(module, name)

    def called(*given, **options):
        path = given[-1] if name in ("rename", "replace") else given[0]
        path = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else os.fspath(path)
        _point(name, "before", path)
        time.sleep(_GIVEN.get("slow") or 0.0)
        result = call(*given, **options)
        if name == "fsync" and _GIVEN.get("kept"):
            _keep(given[0])
        _point(name, "after", path)
        return result

    setattr(module, name, called)


class _Connection(sqlite3.Connection):
    """Its commits are points to stop at."""

    def execute(self, statement, *given):
        if statement != "COMMIT":
            return super().execute(statement, *given)
        path = super().execute("PRAGMA database_list").fetchone()[2]
        _point("COMMIT", "before", path)
        result = super().execute(statement)
        _point("COMMIT", "after", path)
        return result


if _GIVEN:
    _rename, _mkdir, _connect = os.rename, os.mkdir, sqlite3.connect

    def _made(path, *given, **options):
        _mkdir(path, *given, **options)
        if _GIVEN.get("kept") and os.path.abspath(path).startswith(_GIVEN["root"] + os.sep):
            old = os.path.join(_GIVEN["kept"], f"{os.stat(path).st_ino}.folder")
            if os.path.exists(old):
                os.unlink(old)  # of a folder of before, with the same number

    os.mkdir = _made
    sqlite3.connect = lambda *given, **options: _connect(*given, factory=_Connection, **options)
    for _name in ("fsync", "replace", "rename"):
        _around(os, _name)
