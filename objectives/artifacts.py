"""One launch assembled and read: from cached PTX and an ACF to the Artifact that is scored and recorded."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from helitune.acfs.acf import Acf
from helitune.acfs.ptxas import Ptxas

from .artifact import Artifact
from .assemble import Assembled, assemble
from .bound_shape import LoweredLaunch
from .compile_cache import CompileCache
from .elf import code_hash, instruction_count, ptx_line_counts
from .line_weights import line_weights
from .lowering import Lowered
from .ptxas_log import parse_ptxas_log


@dataclass(frozen=True, slots=True)
class Assembler:
    """Makes artifacts with one ptxas, keeping every cubin in `cache`; `slots` bounds how many run at once.

    `read` may read a cubin elsewhere, from its launch and its key in the cache: it takes a tenth of a second of
    Python, which one process for all candidates would be too slow for.
    """

    ptxas: Ptxas
    cache: CompileCache
    timeout_s: float
    memory_bytes: int
    read: Callable[[LoweredLaunch, str], Artifact] | None = None
    slots: threading.Semaphore = field(default_factory=lambda: threading.BoundedSemaphore(_cores()))

    def artifact(self, launch: LoweredLaunch, acf: Acf) -> Artifact:
        """The artifact of one launch with `acf`; raises AssembleFailed, AssembleTimeout, PtxLost, or CubinError."""
        stored = self.cache.get("ptx", launch.ptx_key)
        if stored is None:
            raise PtxLost(launch.ptx_key)
        ptx = Lowered.from_bytes(stored).ptx
        assembled = self._assembled(launch, ptx, acf)
        if self.read is not None:
            return self.read(launch, self.cubin_key(launch, acf))
        return read_artifact(launch, ptx, assembled)

    def cubin_key(self, launch: LoweredLaunch, acf: Acf) -> str:
        """The name of the launch's cubin in the cache, where `artifact` leaves it."""
        # the text with its debug lines, not ptx_sha256: the cubin's line table refers to the text
        return _key(launch.text_sha256, self.ptxas.sha256, *launch.ptxas_flags, acf.sha256)

    def _assembled(self, launch: LoweredLaunch, ptx: str, acf: Acf) -> Assembled:
        key = self.cubin_key(launch, acf)
        stored = self.cache.get("cubin", key)
        if stored is not None:
            return unpacked(stored)
        with self.slots:
            made = assemble(
                self.ptxas.path,
                ptx,
                launch.ptxas_flags,
                acf.path,
                timeout_s=self.timeout_s,
                memory_bytes=self.memory_bytes,
            )
        self.cache.put("cubin", key, _packed(made))
        return made


class PtxLost(Exception):
    """The PTX was trimmed from the cache since it was lowered; lowering again brings it back."""


def read_cached(cache: CompileCache, launch: LoweredLaunch, cubin_key: str) -> Artifact:
    """`read_artifact` of a cubin in the cache; raises PtxLost where it is gone, CubinError for what is none."""
    ptx, cubin = cache.get("ptx", launch.ptx_key), cache.get("cubin", cubin_key)
    if ptx is None or cubin is None:
        raise PtxLost(launch.ptx_key)
    return read_artifact(launch, Lowered.from_bytes(ptx).ptx, unpacked(cubin))


def read_artifact(launch: LoweredLaunch, ptx: str, assembled: Assembled) -> Artifact:
    """What the cubin and ptxas's own account of it say of one launch."""
    usage = parse_ptxas_log(assembled.log)
    weights = line_weights(ptx, ptx_line_counts(assembled.cubin), launch.loops)
    return Artifact(
        ptx_sha256=launch.ptx_sha256,
        code_sha256=code_hash(assembled.cubin),
        registers=usage.registers,
        stack_bytes=usage.stack_bytes,
        spill_store_bytes=usage.spill_store_bytes,
        spill_load_bytes=usage.spill_load_bytes,
        shared_bytes=launch.shared_bytes + (usage.shared_bytes or 0),
        instructions=instruction_count(assembled.cubin),
        num_warps=launch.num_warps,
        grid=launch.grid,
        histogram=tuple(weights.histogram.items()),
        weights=tuple(weights.weights.items()),
        imbalance=weights.imbalance,
        underived=weights.underived,
        compile_s=assembled.seconds,
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _packed(made: Assembled) -> bytes:
    head = json.dumps({"log": made.log, "seconds": made.seconds}).encode()
    return head + b"\n" + made.cubin


def unpacked(stored: bytes) -> Assembled:
    """What ptxas made, from the cache's entry of kind "cubin"."""
    head, _, cubin = stored.partition(b"\n")
    fields = json.loads(head)
    return Assembled(cubin=cubin, log=fields["log"], seconds=fields["seconds"])
