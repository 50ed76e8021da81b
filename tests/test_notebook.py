"""The notebook of the examples runs from its first cell to its last."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "tour.ipynb"


def test_all_cells_run(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert all(shown)  # every cell shows something
    (table,) = (output["data"] for output in shown[0])
    assert "<table class='headrace'>" in table["text/html"]
    assert "rows_in" in str(shown[-1]) and "20000" in str(shown[-1])


def test_no_results_are_kept_in_it():
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs") and not cell.get("execution_count")
