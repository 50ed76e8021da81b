"""Writes files, and syncs some of them: what the disk of crashes.py is tested with."""

import os
import sys
import time
from pathlib import Path


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    root = Path(sys.argv[1]) / "disk"
    folder = root / "folder"
    folder.mkdir()
    for name in ("safe", "torn", "first"):
        (folder / name).write_bytes(b"whole" if name == "first" else name.encode())
    sync(folder / "safe")
    (folder / "safe").write_bytes(b"other content, which is not synced")
    sync(folder / "first")
    os.rename(folder / "first", folder / "renamed")
    sync(folder)
    (folder / "late").write_bytes(b"x")
    sync(folder / "late")  # the file, but not its name
    (folder / "torn").unlink()
    (root / "alone").write_bytes(b"x")
    sync(root)
    (root / "alone").unlink()
    sync(root)
    print("written", flush=True)
    time.sleep(600)
