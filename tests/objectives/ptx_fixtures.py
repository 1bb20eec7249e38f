"""The PTX fixtures: kernels that Helion generated for sm_90, compiled here by the real ptxas.

matmul_*: 1024x1024x1024 in f16; softmax_persistent: 4096x2560 in f16, two rows a tile, 256 columns a step.
The .py beside each .ptx is the Triton source it came from, whose lines the .loc directives name.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from helitune.acfs.ptxas import find_ptxas
from helitune.objectives.artifact import Artifact
from helitune.objectives.elf import code_hash, instruction_count, ptx_line_counts
from helitune.objectives.line_weights import LineWeights, line_weights
from helitune.objectives.ptxas_log import PtxasUsage, parse_ptxas_log
from helitune.objectives.trip_counts import Loop, trip_counts

FOLDER = Path(__file__).parents[1] / "fixtures" / "ptx"


@dataclass(frozen=True)
class Fixture:
    """A kernel's launch on 132 SMs; `shared_bytes` is the dynamic shared memory that Triton would ask for."""

    name: str
    kernel: str
    grid: tuple[int, ...]
    num_warps: int
    shared_bytes: int
    scalars: tuple[tuple[str, int], ...] = ()

    @property
    def ptx(self) -> str:
        return (FOLDER / f"{self.name}.ptx").read_text()

    @property
    def loops(self) -> list[Loop]:
        source = (FOLDER / f"{self.name}.py").read_text()
        return trip_counts(source, self.kernel, dict(self.scalars), self.grid)

    def weights(self) -> LineWeights:
        return line_weights(self.ptx, ptx_line_counts(compiled(self)[0]), self.loops)

    def artifact(self) -> Artifact:
        cubin, usage = compiled(self)
        weights = self.weights()
        return Artifact(
            ptx_sha256="",
            code_sha256=code_hash(cubin),
            registers=usage.registers,
            stack_bytes=usage.stack_bytes,
            spill_store_bytes=usage.spill_store_bytes,
            spill_load_bytes=usage.spill_load_bytes,
            shared_bytes=self.shared_bytes + (usage.shared_bytes or 0),
            instructions=instruction_count(cubin),
            num_warps=self.num_warps,
            grid=self.grid,
            histogram=tuple(weights.histogram.items()),
            weights=tuple(weights.weights.items()),
            imbalance=weights.imbalance,
            underived=weights.underived,
            compile_s=0.0,
        )


SM = (("_NUM_SM", 132),)
# four stages of 128x128 and 128x64 in f16; one of two stages of 16x16
MATMUL_PIPELINED = Fixture("matmul_pipelined", "_helion_matmul", (128,), 4, 4 * (128 * 128 + 128 * 64) * 2)
MATMUL_SMALL_TILE = Fixture("matmul_small_tile", "_helion_matmul", (264,), 2, 2 * 16 * 16 * 2, SM)
MATMUL_UNROLLED = Fixture("matmul_unrolled", "_helion_matmul", (264,), 32, 2 * 16 * 16 * 2, SM)
SOFTMAX = Fixture("softmax_persistent", "_helion_softmax", (1056,), 2, 0, (*SM, ("_REDUCTION_BLOCK_1", 256)))


@lru_cache(maxsize=32)
def compiled(fixture: Fixture, *flags: str, name: str = "kernel") -> tuple[bytes, PtxasUsage]:
    """The cubin and what ptxas said it uses; `name` is that of the files."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / f"{name}.ptx", Path(folder) / f"{name}.cubin"
        source.write_text(fixture.ptx)
        command = [
            find_ptxas(None).path,
            "-v",
            "-lineinfo",
            "--gpu-name=sm_90a",
            *flags,
            source,
            "-o",
            output,
        ]
        log = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stderr
        return output.read_bytes(), parse_ptxas_log(log)
