"""The cache folder: generated modules, machine code, and small facts.

    HEADRACE_CACHE, or the user's cache folder
      └─ <digest of our own code, Python, Numba, NumPy>     changed code never meets an old cache
           ├─ <name>.py              generated modules, and Numba's files in __pycache__
           ├─ machine/<name>.code    what runs without Numba (see memory/machine_code.py)
           └─ facts/<name>.json

The folder may be copied to another place or machine and stays warm: nothing in it names a path, and
the time of a module, by which Numba tells whether it has changed, follows from its text.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import json
import os
import stat
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILED = ("headrace.stage", "headrace.node")  # the packages with compiled functions,
COMPILED_MODULES = ("headrace.dates", "headrace.wrapping")  # and modules outside of them
# Packages that machine code depends on, and the files in which they say their release.
RELEASES = (("numba", "_version.py"), ("llvmlite", "_version.py"), ("numpy", "version.py"))
_PREFIX = "headrace_cached_"  # of the names in sys.modules
# What is in the folder is run: nobody else may write there, and nobody needs to look.
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_loading = threading.RLock()


def folder() -> Path:
    """The folder for this version of everything; made where it is missing."""
    given = os.environ.get("HEADRACE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return _prepared(os.path.abspath(given or os.path.join(home, "headrace")), version())


@cache
def version() -> str:
    """A digest of all that machine code depends on besides its own module.

    >>> len(version())
    16
    """
    parts = (
        *(_sources(importlib.resources.files(package)) for package in COMPILED),
        *map(_source_of, COMPILED_MODULES),
        sys.implementation.cache_tag,
        sys.version,
        *(_release(*file) for file in RELEASES),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _release(package: str, file: str) -> str:
    """What tells one release of a package from another, without loading it."""
    found = importlib.util.find_spec(package)
    for folder in (found and found.submodule_search_locations) or ():
        with suppress(OSError):
            return Path(folder, file).read_text(encoding="utf-8")
    from importlib import metadata  # takes longer to load than all the rest here

    return metadata.version(package)


def _source_of(name: str) -> str:
    """The digest of a module's file, without loading it. It is looked for from here: where the code
    was sent to a cluster, the package itself is only what unpacks it."""
    _, _, module = name.rpartition(".")
    content = Path(__file__).parents[1].joinpath(f"{module}.py").read_bytes()
    return hashlib.sha256(content).hexdigest()


def _sources(place: Any) -> list[tuple[str, str]]:
    """The files of a package and of the packages inside it, by their digests."""
    found = []
    for item in sorted(place.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            found += [(f"{item.name}/{name}", digest) for name, digest in _sources(item)]
        elif item.name.endswith(".py"):
            found.append((item.name, hashlib.sha256(item.read_bytes()).hexdigest()))
    return found


@cache
def _prepared(root: str, below: str) -> Path:
    chosen = Path(root) / below
    try:
        Path(root).mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        _keep_others_out(root)
        chosen.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        why = untrusted(os.stat(root), root) or untrusted(os.stat(chosen), str(chosen))
        if not why:
            (chosen / "facts").mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            with tempfile.TemporaryFile(dir=chosen):
                return chosen
    except OSError as error:
        why = f"it cannot be written: {error.strerror}"
    warnings.warn(
        f"headrace does not use its cache folder {root} ({why}); kernels are compiled anew in each "
        "process. Set HEADRACE_CACHE to a folder that you, and nobody else, can write.",
        stacklevel=3,
    )
    chosen = Path(tempfile.mkdtemp(prefix="headrace-"))
    (chosen / "facts").mkdir()
    return chosen


def _keep_others_out(root: str) -> None:
    """What is ours only we may write, whatever the mask was when it was made."""
    found = os.stat(root)
    if found.st_uid == os.geteuid() and found.st_mode & OTHERS_WRITE:
        with suppress(OSError):
            os.chmod(root, stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)


def untrusted(found: os.stat_result, what: str) -> str:
    """Why a file or folder is not to be trusted, in words; "": it belongs to us (or to root), and
    others cannot change it."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to another user"
    if found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        return f"{what} can be written by others; chmod go-w {what}"
    return ""


def _replace(path: Path, content: bytes, time: int | None = None) -> None:
    """Write a file so that others see the old one or the new one, never a part."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)  # someone may have cleaned up meanwhile
    try:
        with open(
            os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb"
        ) as file:
            file.write(content)
        if time is not None:
            os.utime(partial, (time, time))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_module(name: str, text: str) -> Path:
    """Put a module into the folder, unless it is there; gives its path."""
    path = folder() / f"{name}.py"
    time = 10**9 + int(hashlib.sha256(text.encode()).hexdigest()[:7], 16)  # follows from the text
    try:
        if path.read_text(encoding="utf-8") == text:
            if path.stat().st_mtime != time:  # copied by something that does not keep times
                os.utime(path, (time, time))
            return path
    except (OSError, UnicodeDecodeError):
        pass  # missing or damaged
    _replace(path, text.encode(), time)
    return path


def load_module(name: str, text: str, **injected: Any) -> ModuleType:
    """The module of this name, made from the text with `injected` among its globals.

    The name must stand for the text and for what is injected (a digest of both): a module of the
    same name is loaded once per process, and its machine code once per cache folder.

    >>> load_module("doctest_cache", "def answer():\\n    return given + 2\\n", given=40).answer()
    42
    """
    full_name = _PREFIX + name
    with _loading:
        known = sys.modules.get(full_name)
        if known is not None:
            if known.__headrace_text__ != text:
                raise ValueError(f"two different modules are named {name}")
            return known
        spec = importlib.util.spec_from_file_location(full_name, write_module(name, text))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module).update(injected, __headrace_text__=text)
        sys.modules[full_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[full_name]
            raise
        return module


def read_json(name: str) -> Any:
    """What write_json left under this name, or None.

    >>> write_json("doctest_fact", {"a": [1]})
    >>> read_json("doctest_fact"), read_json("doctest_nothing")
    ({'a': [1]}, None)
    """
    try:
        return json.loads((folder() / "facts" / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None  # a damaged fact is found out again


def write_json(name: str, value: Any) -> None:
    """Keep a small fact for later processes; a full disk loses it, nothing else."""
    write_bytes(folder() / "facts" / f"{name}.json", json.dumps(value).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Keep a file of the folder for later processes; a full disk loses it, nothing else."""
    try:
        _replace(path, content)
    except OSError:
        pass
