"""User functions: checked while a pipeline is built, then compiled into kernels or interpreted.

`check` freezes a function: from then on neither a changed global nor a changed array changes what
the pipeline does, compiled or interpreted. It asks Numba for the types of the results and refuses
what Numba cannot compile, with the user's line. What was found out is kept in the cache folder, so
that a function that was checked once, on any day, is not compiled again just to be checked.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from numba import njit, types

from headrace.plan.builtins import way_out
from headrace.plan.errors import PipelineError
from headrace.plan.functions import Function, StateSpec, Wanted
from headrace.plan.site import Site, code_site
from headrace.plan.types import DataType
from headrace.stage import cache
from headrace.stage.functions.fingerprint import Freezer, fingerprint, plain
from headrace.stage.functions.handlers import check_handlers
from headrace.stage.functions.outputs import Found, agreed_outputs, output_types
from headrace.stage.functions.refusals import (
    WAY_OUT,
    Refusal,
    inspect_function,
    reachable,
    refusal,
)
from headrace.stage.functions.silent import assigned_variables, check_meaning, replaced_builtins
from headrace.stage.functions.state import state_record
from headrace.stage.functions.whole import CheckedCompiler
from headrace.stage.item_types import ItemsType
from headrace.stage.items import item_code
from headrace.stage.memory.extensions import register_extensions
from headrace.stage.memory.numba_internals import Dispatcher
from headrace.stage.strings.text_types import blob_type, text_type

register_extensions()  # users' functions may use all that Numba has been taught
_compile = njit(nogil=True, boundscheck=True, error_model="python", pipeline_class=CheckedCompiler)
_dispatchers: dict[str, tuple[Dispatcher, list[Dispatcher]]] = {}  # by fingerprint; all it calls
_compiling = threading.RLock()


def check(
    callable: Callable[..., Any],
    inputs: Sequence[DataType],
    *,
    operator: str,
    site: Site,
    generator: bool,
    state: StateSpec | None = None,
    declared: Sequence[DataType] | None = None,
    names: Sequence[str] | None = None,
    asides: Mapping[str, Wanted] | None = None,
) -> Function:
    """The function as a plan knows it, or a PipelineError.

    inputs: the types of its arguments, without the state, which comes first where there is one.
    declared: the types of the results as the user wants them, where they are not to be inferred.
    names: the columns that the results are for; there must be as many results, where () asks for a
    function that gives nothing. asides: the other outputs that it may yield rows to.

    >>> from headrace.plan.types import int64
    >>> made = check(lambda x: (x, x / 2), [int64], operator="map", site=None, generator=False)
    >>> made.parameters, made.outputs
    (('x',), (int64, float64))
    """
    name = function_name(callable)
    try:
        given = _python_function(callable, site)
        parameters = _parameters(given, state is not None)
        _check_shape(given, parameters, inputs, generator, state is not None)
        _check_state(state, site)
        wanted = {"": Wanted(tuple(names or ()), declared), **(asides or {})}
        kinds = [kind for each in wanted.values() for kind in each.declared or ()]
        _check_types(inputs, state, kinds, code_site(given.__code__))
        for function in reachable(given):
            inspect_function(function, given)
            check_handlers(function)
        frozen = Freezer().function(given)
        digest = fingerprint(frozen)
        found = _inferred(digest, frozen, inputs, state, gives=names != ())
        outputs = agreed_outputs(found, wanted, code_site(given.__code__))
    except Refusal as reason:
        what = f"{name} {reason.what}"
        raise PipelineError(what, operator=operator, site=reason.site, fix=reason.fix) from None
    return Function(
        name="lambda" if given.__name__ == "<lambda>" else given.__name__,
        fingerprint=digest,
        parameters=parameters[: len(inputs)],
        outputs=outputs.pop("", ()),
        is_generator=generator,
        inputs=tuple(inputs),
        state=state,
        asides=tuple(outputs.items()),
        site=code_site(given.__code__),
        callable=frozen,
    )


def compiled_function(function: Function) -> Dispatcher:
    """The user's function, and all it calls, for compiled code; the same object for equal ones."""
    given = function.callable
    assert isinstance(given, FunctionType)
    return _dispatcher(function.fingerprint, given)[0]


def _dispatcher(digest: str, frozen: FunctionType) -> tuple[Dispatcher, list[Dispatcher]]:
    with _compiling:
        if digest not in _dispatchers:
            made: list[Dispatcher] = []

            def finish(function: FunctionType) -> Dispatcher:
                function.__globals__.update(replaced_builtins(function))
                # Numba writes the module and the name of a function into the machine code that it
                # keeps. Other processes import that module, and must find no other function under
                # that name, though the user's may be called alike in any file or notebook.
                function.__module__ = __name__
                function.__qualname__ += f"_{digest}_{len(made)}"
                made.append(_compile(function))
                return made[-1]

            _dispatchers[digest] = (Freezer(finish).function(frozen), made)
        return _dispatchers[digest]


# ---- types ---------------------------------------------------------------------------------


def numba_type(kind: DataType) -> types.Type:
    """What a column's value is inside a compiled function.

    >>> from headrace.plan.types import int8, optional
    >>> numba_type(optional(int8))
    OptionalType(int64)
    """
    if kind.nullable:
        return types.Optional(numba_type(kind.required))
    if kind.name == "bool":
        return types.boolean
    if kind.item is not None:
        return ItemsType(item_code(kind.item))
    if kind.is_view:
        return text_type if kind.name == "string" else blob_type
    return types.float64 if kind.is_float else types.int64


def _inferred(
    digest: str,
    frozen: FunctionType,
    inputs: Sequence[DataType],
    state: StateSpec | None,
    gives: bool,
) -> Found:
    """The types of the results by output, from the cache or from Numba; None: always null."""
    fields = state and ([(f.name, repr(f.type)) for f in state.fields], *state.limits)
    asked = repr((digest, [repr(kind) for kind in inputs], fields, *(() if gives else ("none",))))
    key = "results_" + hashlib.sha256(asked.encode()).hexdigest()[:32]
    known = cache.read_json(key)
    if known is None:
        found = _ask_numba(digest, frozen, inputs, state, gives)
        told = {n: [k and [k.name, k.nullable] for k in kinds] for n, kinds in found.items()}
        cache.write_json(key, told)
        return found
    return {name: [k and DataType(*k) for k in kinds] for name, kinds in known.items()}


def _ask_numba(
    digest: str,
    frozen: FunctionType,
    inputs: Sequence[DataType],
    state: StateSpec | None,
    gives: bool,
) -> Found:
    arguments = [numba_type(kind) for kind in inputs]
    if state is not None:
        arguments.insert(0, state_record(state).numba_type)
    dispatcher, all_of_them = _dispatcher(digest, frozen)
    site = code_site(frozen.__code__)
    functions = list(reachable(frozen))
    try:
        with _compiling, assigned_variables(functions):
            # The way a kernel's call goes, so that the kernel finds the machine code.
            _, _, folded, _ = dispatcher.get_call_template(tuple(arguments), {})
        result = dispatcher.overloads[tuple(folded)].signature.return_type
        for called in all_of_them:
            check_meaning(called)
    except Refusal:
        _dispatchers.pop(digest, None)
        raise
    except Exception as error:
        _dispatchers.pop(digest, None)
        raise refusal(error, functions) from None
    if gives:
        return output_types(result, site)
    if not isinstance(result, types.NoneType):
        raise Refusal("returns a value, which nobody reads", site, "yield it, as a row")
    return {}


def _check_types(
    inputs: Sequence[DataType],
    state: StateSpec | None,
    declared: Sequence[DataType] | None,
    site: Site,
) -> None:
    """Functions know numbers, times and texts, and are given lists of them."""
    kept = [field.type for field in state.fields if field.type.item is None] if state else []
    given = [kind for kind in inputs if kind.item is None or item_code(kind.item) < 0]
    for kind in (*given, *kept, *(declared or ())):
        if kind.is_composite:
            what = f"has a value of type {kind}, and compiled functions have no such values"
            raise Refusal(what, site, f"{way_out(kind)}, or use map_batches")


def _check_state(state: StateSpec | None, site: Site) -> None:
    fields = state.fields if state else ()
    for field in fields:
        if field.name.startswith("_") or not field.name.isidentifier():
            what = f"has a state with the field {field.name!r}, which cannot be used as `state.x`"
            raise Refusal(what, site, "use letters, digits and underscores, not at the front")
        if field.name == "heap" and any(other.type.is_view for other in fields):
            what = "has a state with a field 'heap', which is needed to keep strings and lists"
            raise Refusal(what, site, "choose another name")


# ---- shape ---------------------------------------------------------------------------------


def function_name(callable: Any) -> str:
    """What to call a function in messages."""
    name = getattr(callable, "__name__", None) or type(callable).__name__
    return "the lambda" if name == "<lambda>" else f"{name}()"


def _python_function(given: Any, site: Site) -> FunctionType:
    given = plain(given)
    if isinstance(given, FunctionType):
        return given
    if isinstance(given, MethodType):
        what, fix = "is a method", "write a function outside the class"
    elif isinstance(given, functools.partial):
        what, fix = "is a functools.partial", "write a lambda that calls the function"
    elif isinstance(given, type):
        what, fix = "is a class", "write a function that gives numbers, strings or a tuple"
    elif isinstance(given, BuiltinFunctionType):
        what, fix = "is not written in Python", f"write lambda x: {given.__name__}(x)"
    elif callable(given):
        what, fix = "is an object that can be called", "write a function"
    else:
        what, fix = "is not a function", "give a function or a lambda"
    raise Refusal(f"{what}, which cannot be compiled", site, f"{fix}, {WAY_OUT}")


def _parameters(function: FunctionType, state: bool) -> tuple[str, ...]:
    code, site = function.__code__, code_site(function.__code__)
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise Refusal("takes * or ** arguments", site, "name each parameter")
    if code.co_kwonlyargcount:
        raise Refusal("has keyword-only parameters", site, "remove the * before them")
    names = code.co_varnames[: code.co_argcount]
    if state and not names:
        raise Refusal("takes nothing", site, "take the state as first parameter")
    return names[1:] if state else names


def _check_shape(
    function: FunctionType,
    parameters: tuple[str, ...],
    inputs: Sequence[DataType],
    generator: bool,
    state: bool,
) -> None:
    site = code_site(function.__code__)
    yields = bool(function.__code__.co_flags & inspect.CO_GENERATOR)
    if generator and not yields:
        raise Refusal("does not yield", site, "yield each row, or use map for one row per row")
    if yields and not generator:
        raise Refusal("yields", site, "return one result, or use flat_map for many rows per row")
    required = len(parameters) - min(len(function.__defaults__ or ()), len(parameters))
    if not required <= len(inputs) <= len(parameters):
        besides = " besides the state" if state else ""
        takes = f"{required} to {len(parameters)}" if required < len(parameters) else f"{required}"
        raise Refusal(
            f"takes {takes} arguments{besides} and is given {len(inputs)}",
            site,
            f"its parameters are: {', '.join(parameters) or 'none'}",
        )
