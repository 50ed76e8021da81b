"""The README shows what really happens."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.S)


def test_the_pipeline_prints_what_the_readme_says(tmp_path):
    program = next(text for kind, text in BLOCKS if kind == "python")
    shown = next(text for kind, text in BLOCKS if not kind)
    file = tmp_path / "pipeline.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == shown.strip()


def test_the_example_is_the_readmes_pipeline():
    program = next(text for kind, text in BLOCKS if kind == "python")
    example = (ROOT / "examples" / "ads.py").read_text(encoding="utf-8")
    assert example.split("\n\n", 1)[1].strip() == program.strip()


def test_pictures_and_pages_exist():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
