"""Machine code that is loaded without the compiler: kept, found again, called, refused."""

import ast
import hashlib
import os
import pickle
import stat
from pathlib import Path

import pytest
from llvmlite import binding as llvm
from pyspark import cloudpickle

import headrace
from headrace.node import growth
from headrace.node.futex import Word
from headrace.node.pool import Pool
from headrace.node.port import Port, pending
from headrace.stage import cache
from headrace.stage.memory import arithmetic, dispatching, machine_code
from headrace.stage.memory.modes import Compiled
from headrace.stage.memory.records import compiled, i64, record

pytestmark = pytest.mark.compiled


@record
class Pair:
    left: i64
    right: i64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def own_cache(folder, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE", folder)


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(function, *given):
        raise AssertionError(f"{function.__qualname__} is compiled again")

    monkeypatch.setattr(dispatching, "compile_words", refuse)


def anew(function):
    """The function as a new process has it."""
    return Compiled(function.py_func, function._place)


def division(*given):
    return anew(arithmetic.floor_divide)(*given)


def test_what_was_compiled_once_needs_no_compiler(request):
    assert division(-7, 2) == -4
    request.getfixturevalue("no_compiler")
    assert division(-7, 2) == -4
    assert division(2**63 - 1, 1) == 2**63 - 1
    with pytest.raises(AssertionError, match="compiled again"):
        anew(arithmetic.remainder)(7, 2)


def test_errors_are_raised_as_they_were(request):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match=arithmetic.DIVISION_BY_ZERO):
            division(1, 0)
        with pytest.raises(OverflowError, match=arithmetic.INTEGER_OVERFLOW):
            division(-(2**63), -1)
        request.getfixturevalue("no_compiler")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_that_is_no_word_is_refused(value):
    for call in (lambda: division(value, 1), lambda: anew(arithmetic.absolute)(value)):
        with pytest.raises(OverflowError, match="does not fit in int64"):
            call()
    assert anew(arithmetic.absolute)(-(2**63) + 1) == 2**63 - 1


def test_other_arguments_and_results_go_through_numba():
    assert anew(arithmetic.true_divide)(1, 4) == 0.25
    assert anew(arithmetic.float_less)(1.0, float("nan"))
    assert anew(arithmetic.absolute)(True) == 1


def test_damaged_files_are_made_again(folder):
    assert division(7, 2) == 3
    name = "headrace.stage.memory.arithmetic.floor_divide", "int int"
    path = machine_code._path(*name)
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], b"{}\n", b"\xff" + whole, whole[:-1], whole + b"x"):
        path.write_bytes(damaged)
        assert machine_code.load(*name) is None
        assert division(7, 2) == 3
        assert machine_code.load(*name) is not None


def test_another_processor_finds_nothing(monkeypatch):
    name = "headrace.stage.memory.arithmetic.floor_divide"
    assert division(7, 2) == 3
    assert machine_code.load(name, "int int") is not None
    assert machine_code.load(name, "int") is None
    monkeypatch.setattr(machine_code, "_processor", lambda: ["another"])
    assert machine_code.load(name, "int int") is None


def test_settings_of_numba_are_part_of_the_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def path():
        machine_code._processor.cache_clear()
        return machine_code._path("a.function", "int")

    try:
        names = {path()}
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
        names.add(path())
        (tmp_path / ".numba_config.yaml").write_text("opt: 1")
        names.add(path())
        monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
        names.add(path())
        assert len(names) == 3
    finally:
        machine_code._processor.cache_clear()


@pytest.mark.parametrize("name", ["NRT_Allocate", "numba_frexp", "PyLong_FromLong"])
def test_what_needs_numba_or_the_interpreter_is_not_kept(name):
    needing = llvm.parse_assembly(f"declare i64 @{name}(i64)\ndeclare i64 @malloc(i64)")
    assert not machine_code.keep("a.needing", "int", "entry", "integer", needing, b"")
    assert machine_code.load("a.needing", "int") is None


def test_a_file_that_needs_what_is_not_there_is_not_loaded(monkeypatch):
    assert division(7, 2) == 3
    monkeypatch.setattr(machine_code, "_is_known_to_all", lambda name: False)
    monkeypatch.setattr(machine_code, "_undefined", lambda module: ["something"])
    name = "headrace.stage.memory.arithmetic.floor_divide"
    rewrite(machine_code._path(name, "int int"), b'"needs": []', b'"needs": ["something"]')
    assert machine_code.load(name, "int int") is None


def rewrite(path, old, new):
    """Change a file of the cache, and its digest with it."""
    content = path.read_bytes().partition(b"\n")[2]
    assert old in content
    content = content.replace(old, new)
    path.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


FLOOR, REST = ("headrace.stage.memory.arithmetic." + each for each in ("floor_divide", "remainder"))


def test_a_file_says_which_function_it_is(folder):
    """The code of one function under the name of another is not run."""
    assert division(7, 2) == 3 and anew(arithmetic.remainder)(7, 2) == 1
    path = machine_code._path(FLOOR, "int int")
    path.write_bytes(machine_code._path(REST, "int int").read_bytes())
    assert machine_code.load(FLOOR, "int int") is None
    assert division(7, 2) == 3
    for old, new in (
        (FLOOR.encode(), REST.encode()),
        (b'"int int"', b'"int"'),
        (b'"processor": "', b'"processor": "0'),
        (b'"name": ', b'"nome": '),
    ):
        rewrite(path, old, new)
        assert machine_code.load(FLOOR, "int int") is None
        assert division(7, 2) == 3


def test_facts_are_verified_as_the_code_is():
    assert division(7, 2) == 3
    path = machine_code._path(FLOOR, "int int")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"result": "integer"', b'"result": "none"'))
    assert machine_code.load(FLOOR, "int int") is None
    path.write_bytes(whole)
    assert machine_code.load(FLOOR, "int int") is not None


def test_what_others_may_have_written_is_not_run(tmp_path):
    assert division(7, 2) == 3
    path = machine_code._path(FLOOR, "int int")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert machine_code.load(FLOOR, "int int") is None
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        assert machine_code.load(FLOOR, "int int") is None
        os.chown(path, 0, -1)
    moved = tmp_path / "elsewhere.code"
    path.rename(moved)
    path.symlink_to(moved)
    assert machine_code.load(FLOOR, "int int") is None
    path.unlink()
    moved.rename(path)
    assert machine_code.load(FLOOR, "int int") is not None


@pytest.fixture
def fresh_folders():
    """Folders are looked at once per process: forget that."""
    cache._prepared.cache_clear()
    yield
    cache._prepared.cache_clear()


def test_a_cache_folder_of_ours_is_private(tmp_path, monkeypatch, fresh_folders):
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    before = os.umask(0o002)
    try:
        found = cache.folder()
    finally:
        os.umask(before)
    assert found.parent == tmp_path / "cache"
    for made in (found, found.parent, found / "facts"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_what_is_ours_is_closed_to_others(tmp_path, monkeypatch, fresh_folders):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    assert cache.folder().parent == tmp_path
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_folder_that_others_can_write_is_not_used(
    tmp_path, monkeypatch, fresh_folders, mode
):
    (tmp_path / cache.version()).mkdir()
    (tmp_path / cache.version()).chmod(mode)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    with pytest.warns(UserWarning, match=r"can be written by others; chmod go-w"):
        assert tmp_path not in cache.folder().parents


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("whose", ["", cache.version()])
def test_a_cache_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch, fresh_folders, whose):
    (tmp_path / cache.version()).mkdir(mode=0o700)
    os.chown(tmp_path / whose, 12345, -1)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert tmp_path not in cache.folder().parents


# ---- all compiled functions are in the digest ----------------------------------------------------

MAKERS = {"compiled", "record", "njit", "jit", "vectorize", "guvectorize", "cfunc", "intrinsic"}


def makes_compiled_functions(text):
    """Does a module have functions or records that are compiled by their decorators?"""
    for node in ast.walk(ast.parse(text)):
        for decorator in getattr(node, "decorator_list", ()):
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(named, "attr", getattr(named, "id", "")) in MAKERS:
                return True
    return False


def test_the_digest_covers_every_package_with_compiled_functions():
    root = Path(headrace.__file__).parent
    makers = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if makes_compiled_functions(path.read_text(encoding="utf-8"))
    }
    assert len(makers) > 30
    covered = tuple(f"{name}." for name in cache.COMPILED + cache.COMPILED_MODULES)
    assert sorted(name for name in makers if not f"{name}.".startswith(covered)) == []


@pytest.mark.parametrize(
    "text",
    [
        "@compiled\ndef f(x):\n    return x",
        "class A:\n    @numba.njit(cache=True)\n    def f(x):\n        return x",
        "@record\nclass R:\n    a: i64",
    ],
)
def test_gaps_would_be_found(text):
    assert makes_compiled_functions(text)
    assert not makes_compiled_functions(text.replace("@", "# @"))


def test_a_compiled_function_is_pickled_by_its_name():
    for dumps in (pickle.dumps, cloudpickle.dumps):
        assert pickle.loads(dumps(arithmetic.floor_divide)) is arithmetic.floor_divide


def test_functions_of_users_and_tests_are_numbas(folder):
    @compiled
    def add_up(pair):
        return pair.left + pair.right

    pair = Pair.allocate()
    pair.left, pair.right = 3, 4
    assert not isinstance(add_up, Compiled)
    assert add_up(pair) == 7


def test_records_are_words_and_results_have_their_types():
    pool, bell = Pool.allocate(), Word.allocate()
    assert anew(growth.set_low)(pool, 3) is None and pool.low == 3
    assert anew(growth.hang_bell)(pool, bell.address) is False
    pool.asked = 1
    assert anew(growth.hang_bell)(pool, bell.address) is True
    assert anew(growth.times_rung)(bell.address) == 0
    assert anew(pending)(Port.allocate()) == 0
