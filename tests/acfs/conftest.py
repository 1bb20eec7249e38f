"""Real packs on disk for the tests of helitune.acfs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acf_packs import Contents, describe

TEMPORARY = tempfile.gettempdir()


@pytest.fixture
def write_pack(tmp_path: Path) -> Callable[..., Path]:
    """Write files, and with `manifest` a manifest that describes them, changed by its entries."""

    def write(contents: Contents, *, manifest: dict[str, Any] | None = None, name: str = "pack") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file, content in contents.items():
            (folder / file).write_bytes(content)
        if manifest is not None:
            document = json.dumps(describe(contents, **manifest))
            (folder / "booster-pack-manifest.json").write_text(document)
        return folder

    return write


@pytest.fixture
def users_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of an ordinary user, who also runs the test: permissions do not bind root."""
    # not in tmp_path, which only its owner can enter; asked for first, as nobody could make it afterwards
    folder = Path(tempfile.mkdtemp(prefix="helitune-test-", dir=TEMPORARY)).resolve()
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        for path in folder.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        folder.chmod(0o700)
        shutil.rmtree(folder)
