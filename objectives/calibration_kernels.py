"""The kernels that a machine's A/A distribution is measured with: their files, which are loaded as a user's are."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).with_name("calibration")
KERNELS = tuple(FOLDER / f"{kind}.py" for kind in ("memory_bound", "compute_bound", "launch_bound"))
"""One for each thing that a kernel can wait for: where buffers lie, how power is shared, how launches follow."""
