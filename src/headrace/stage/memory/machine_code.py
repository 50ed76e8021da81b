"""Machine code in the disk cache, loaded without the compiler.

Numba loads what it has cached into a typing system that first has to be built up, which takes
longer than all the rest of a warm start. A function of *words* (integers, and records, which are
addresses) that gives a word needs nothing of that: LLVM loads its object code, and C calls it.

A file holds one function for one processor: the digest of all that follows, a line of facts about
it (`_Facts`), and object code. It is used where it belongs to the user, cannot be written by
others, and says by itself that it is the function that is asked for.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding as llvm

from headrace.stage import cache as disk

_SETTINGS = ".numba_config.yaml"  # where Numba looks for some, besides the environment
LOWEST, HIGHEST = -(2**63), 2**63 - 1  # integers of one word

# What a word stands for, by the name of the result in the facts.
RESULTS: dict[str, Callable[[int], Any]] = {
    "integer": int,
    "flag": lambda word: bool(word & 0xFF),  # one byte is written
    "none": lambda word: None,
}


@dataclass(frozen=True)
class _Facts:
    name: str  # of the function, with its module
    signature: str
    processor: str  # the digest of what it was compiled for
    entry: str  # the name of the function in the object code
    result: str  # one of RESULTS
    needs: list[str]  # names that must be known where it is loaded


@dataclass(frozen=True)
class MachineCode:
    """A function of words that is loaded."""

    address: int
    result: str
    owner: Any = None  # what must live as long

    def caller(self, kinds: tuple[type, ...]) -> Callable[..., Any]:
        """The function for Python, with arguments of these types, int or a record's; lets other
        threads run meanwhile."""
        words = [ctypes.c_int64] * len(kinds)
        # the way Numba's functions call each other, with a place for the result and for the error
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *words)
        function, meaning, byref = kind(self.address), RESULTS[self.result], ctypes.byref

        def call(*given: Any) -> Any:
            answer = _Answer()
            words = [value if type(value) is int else value._address for value in given]
            if min(words, default=0) < LOWEST or max(words, default=0) > HIGHEST:
                raise OverflowError(f"an integer in {given} does not fit in int64")
            if function(byref(answer), byref(answer, _ERROR), *words):
                _raise(answer.error)
            return meaning(answer.result)

        def call_with_address(address: int) -> Any:  # the same, for what is called most
            answer = _Answer()
            if not 0 <= address <= HIGHEST:
                return call(address)
            if function(byref(answer), byref(answer, _ERROR), address):
                _raise(answer.error)
            return answer.result

        return call_with_address if kinds == (int,) and self.result == "integer" else call


class _Answer(ctypes.Structure):
    _fields_ = (("result", ctypes.c_int64), ("error", ctypes.c_void_p))


_ERROR = _Answer.error.offset


class _Raised(ctypes.Structure):
    """What Numba's `raise` leaves: a pickled (class, arguments, place)."""

    _fields_ = (("pickled", ctypes.c_void_p), ("size", ctypes.c_int32))


def _raise(error: int | None) -> None:
    if not error:
        raise RuntimeError("compiled code failed, and did not say why")
    raised = _Raised.from_address(error)
    kind, arguments, _ = pickle.loads(ctypes.string_at(raised.pickled, raised.size))
    raise kind(*arguments)


# ---- the cache -----------------------------------------------------------------------------


def load(name: str, signature: str) -> MachineCode | None:
    """A function that was kept under this name and signature, for this processor; or None."""
    try:
        digest, _, content = _read(_path(name, signature)).partition(b"\n")
        if digest != _digest(content).encode():
            return None
        line, _, code = content.partition(b"\n")
        facts = _Facts(**json.loads(line))
        if (facts.name, facts.signature, facts.processor) != (name, signature, _processor_digest()):
            return None
        return MachineCode(_linked(facts, code), facts.result)
    except (OSError, ValueError, TypeError, _CannotLink):
        return None  # missing, damaged, or in need of more than is loaded


def keep(name: str, signature: str, entry: str, result: str, module: Any, code: bytes) -> bool:
    """Write a function to the cache; False: it needs what only the compiler knows.

    module: the LLVM module that the object code was made of.
    """
    facts = _Facts(name, signature, _processor_digest(), entry, result, _undefined(module))
    if not all(map(_is_known_to_all, facts.needs)):
        return False
    content = json.dumps(asdict(facts)).encode() + b"\n" + code
    disk.write_bytes(_path(name, signature), _digest(content).encode() + b"\n" + content)
    return True


def _read(path: Path) -> bytes:
    """A file of the cache; an OSError where it is not there, or somebody else may have written it.

    LLVM would run whatever is in it.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        why = disk.untrusted(os.fstat(file.fileno()), str(path))
        if why:
            raise PermissionError(why)
        return file.read()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _path(name: str, signature: str) -> Path:
    digest = _digest(repr((name, signature, _processor_digest())).encode())[:16]
    return disk.folder() / "machine" / f"{name.rpartition('.')[2]}-{digest}.code"


def _processor_digest() -> str:
    return _digest(repr(_processor()).encode())


@cache
def _processor() -> list[Any]:
    """What object code depends on besides all that the cache folder is named by."""
    settings = {k: v for k, v in os.environ.items() if k.startswith("NUMBA_")}
    settings.pop("NUMBA_CACHE_DIR", None)
    with suppress(OSError):
        settings[_SETTINGS] = Path(_SETTINGS).read_text(encoding="utf-8")
    features = llvm.get_host_cpu_features().flatten()
    return [llvm.get_process_triple(), llvm.get_host_cpu_name(), features, sorted(settings.items())]


# ---- linking -------------------------------------------------------------------------------


class _CannotLink(Exception):
    """Object code needs a name that is not known."""


def _undefined(module: Any) -> list[str]:
    """The names that the code of a module needs from outside."""
    values = (*module.functions, *module.global_variables)
    names = {value.name for value in values if value.is_declaration}
    return sorted(name for name in names if not name.startswith("llvm."))


_C_LIBRARY = ctypes.CDLL(None)


def _is_known_to_all(name: str) -> bool:
    """Is it part of the C library, and not of something that was loaded since?"""
    return not name.startswith(("Py", "_Py")) and hasattr(_C_LIBRARY, name)


def _linked(facts: _Facts, code: bytes) -> int:
    """The address of the function; LLVM would end the process where a name is missing."""
    if not all(map(_is_known_to_all, facts.needs)):
        raise _CannotLink
    # an engine of its own: equal names in other functions' code are never mixed up with its own
    engine = _new_engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address(facts.entry)
    if not address:
        raise _CannotLink
    return address


_engines: list[Any] = []  # they own the code


def _new_engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # the only code that this one makes is that of an empty module
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=0)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
