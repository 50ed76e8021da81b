"""Our own code on its way to the machines of a cluster, which need not have headrace installed.

Spark adds a small zip file to the path of its Python workers. The `headrace` in it unpacks itself
into the cache folder of the machine, under a name that follows from its content, and goes on from
there: Numba keeps machine code by the path of a file, and Spark gives files a new path every time.
What else is needed (Numba, PyArrow, the user's own packages) must be installed.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from .temporary import folder_of_process

if TYPE_CHECKING:
    from pyspark import SparkContext

PACKAGE = Path(__file__).resolve().parents[1]
CODE = "headrace.code"  # the zip file inside of the zip file

_have_it: WeakSet[Any] = WeakSet()  # contexts whose workers were sent the package

# Runs in workers as `headrace/__init__.py`, before anything of headrace can be imported.
_SHIM = '''\
"""headrace, sent by the driver: unpacked once on each machine, then imported from there."""

import importlib.resources
import io
import os
import shutil
import tempfile
import zipfile


def _unpacked(digest):
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = os.environ.get("HEADRACE_CACHE") or os.path.join(home, "headrace")
    folder = os.path.join(os.path.abspath(root), "code", digest)
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        made = tempfile.mkdtemp(dir=os.path.dirname(folder))
        content = importlib.resources.files(__name__).joinpath("{code}").read_bytes()
        zipfile.ZipFile(io.BytesIO(content)).extractall(made)
        try:
            os.rename(made, folder)
        except OSError:  # another worker was first
            shutil.rmtree(made, ignore_errors=True)
    return os.path.join(folder, "headrace")


__path__ = [_unpacked("{digest}")]
__file__ = os.path.join(__path__[0], "__init__.py")
__spec__.submodule_search_locations = __path__
with open(__file__, encoding="utf-8") as _file:
    exec(compile(_file.read(), __file__, "exec"))
'''


def ship(context: SparkContext) -> None:
    """Send headrace to the workers of a cluster, once; local ones have it already."""
    if is_local(context.master or "local") or context in _have_it:
        return
    folder = folder_of_process("headrace-code-")  # workers may come later
    context.addPyFile(str(zipped(PACKAGE, folder)))
    _have_it.add(context)


def is_local(master: str) -> bool:
    """Do tasks run in the driver's own Java?

    >>> is_local("local[2]"), is_local("local-cluster[2,1,1024]"), is_local("spark://host:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def zipped(package: Path, folder: Path) -> Path:
    """The zip file for the workers, in a folder."""
    inner = folder / CODE
    _zip({path.relative_to(package.parent): path for path in _sources(package)}, inner)
    digest = hashlib.sha256(inner.read_bytes()).hexdigest()[:16]
    shim = folder / "shim.py"
    shim.write_text(_SHIM.replace("{code}", CODE).replace("{digest}", digest))
    outer = folder / f"headrace-{digest}.zip"
    _zip({Path("headrace/__init__.py"): shim, Path("headrace") / CODE: inner}, outer)
    inner.unlink()
    shim.unlink()
    return outer


def _sources(package: Path) -> list[Path]:
    found = [path for path in package.rglob("*") if path.is_file()]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def _zip(files: dict[Path, Path], path: Path) -> None:
    """The same content gives the same bytes, wherever and whenever it was installed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, source in files.items():
            entry = zipfile.ZipInfo(os.fspath(name), (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, source.read_bytes())
