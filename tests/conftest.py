"""What several packages' tests share: a cache of their own, the real ptxas, and compile workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.ptxas import Ptxas, find_ptxas
from helitune.objectives.compile_environment import compile_environment
from helitune.objectives.worker_pool import WorkerPool

ROOT = Path(__file__).parents[1]
MEMORY_BYTES = 8 << 30


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache of this test session, so that none reads or grows the user's own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HELITUNE_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def search_spaces() -> Path:
    """A folder with CompileIQ's search space of ptxas; it is not ours to distribute, so that it may be missing.

    Where the folder that should have it is there, a missing space is an error.
    """
    given, shared = os.environ.get("CIQ_SEARCH_SPACES_DIR"), ROOT.parent / "shared"
    if given is None and not shared.is_dir():
        pytest.skip("no search space: set CIQ_SEARCH_SPACES_DIR to a folder with CompileIQ's")
    folder = Path(given) if given is not None else shared / "search-spaces"
    assert (folder / "manifest.json").is_file(), f"no search space in {folder}"
    return folder


@pytest.fixture(scope="session")
def ptxas() -> Ptxas:
    """The ptxas of the installed nvidia-cuda-nvcc."""
    return find_ptxas(None)


@pytest.fixture(scope="session")
def start_pool(cache_folder: Path, ptxas: Ptxas, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A function that starts a WorkerPool for a kernel file; all of them are closed at the end."""
    started: list[WorkerPool] = []

    def start(
        file: Path,
        *args: str,
        size: int = 1,
        cache_root: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> WorkerPool:
        pool = WorkerPool(
            {
                "file": str(file),
                "kernel": None,
                "reference": None,
                "args": list(args),
                "cache_root": str(cache_root or cache_folder / "compiled"),
                "memory_bytes": MEMORY_BYTES,
            },
            target="sm_90",
            size=size,
            log=tmp_path_factory.mktemp("log") / "workers.log",
            environment=compile_environment(ptxas, os.environ) | (environment or {}),
        )
        started.append(pool)
        return pool

    yield start
    for pool in started:
        pool.close()


@pytest.fixture(scope="session")
def softmax_pool(start_pool: Callable[..., WorkerPool]) -> WorkerPool:
    """Two workers for examples/softmax.py."""
    return start_pool(ROOT / "examples" / "softmax.py", size=2)


@pytest.fixture(scope="session")
def matmul_pool(start_pool: Callable[..., WorkerPool]) -> WorkerPool:
    """One worker for examples/matmul_bias_gelu.py."""
    return start_pool(ROOT / "examples" / "matmul_bias_gelu.py")
