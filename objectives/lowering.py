"""From a captured launch to PTX, and the ptxas command line that Triton itself would run on it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .triton_launches import Launch

MAX_ELEMENTS_PER_THREAD = 512
"""Tiles above this are not compiled. A thread has at most 255 registers of 4 bytes, so a tile of more than
512 elements a thread lives mostly in spills, and takes minutes to compile."""


class TileTooLarge(Exception):
    """The config asks for a tile that no block of threads can hold."""


class NeedsTooMuchShared(Exception):
    """A block of this config needs more shared memory than the target can give one."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """PTX of one launch with what is needed to assemble, score and launch it.

    `ptxas_flags` are Triton's own for this launch, without source, output and ptxas path; `metadata` is what
    Triton keeps beside the binary, as its own JSON.
    """

    ptx: str
    ptx_sha256: str
    metadata: str
    ptxas_flags: tuple[str, ...]
    num_warps: int
    shared_bytes: int

    def to_bytes(self) -> bytes:
        """This record as it is cached."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Lowered:
        """The record that `to_bytes` wrote."""
        fields = json.loads(stored)
        return cls(**{**fields, "ptxas_flags": tuple(fields["ptxas_flags"])})


_FORMAT = "2"
"""Of what is cached; 2 added the metadata."""


def source_key(launch: Launch) -> str:
    """sha256 of all that decides the PTX of a launch: source, signature, options, backend and its version."""
    from triton.compiler.compiler import make_backend

    backend = make_backend(launch.target)
    parts = (_FORMAT, launch.source.hash(), backend.hash(), _options(launch, backend).hash())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def lower(launch: Launch) -> Lowered:
    """Triton's own pipeline on `launch` up to PTX.

    Raises TileTooLarge before any expensive stage, NeedsTooMuchShared as soon as that is known, and whatever
    Triton raises.
    """
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(launch.target)
    options = _options(launch, backend)
    metadata: dict[str, Any] = {"target": launch.target, **options.__dict__}
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, launch.source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = launch.source.make_ir(
        launch.target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    _refuse_oversized_tiles(str(module), options.num_warps)
    for name, stage in stages.items():
        if name == "cubin":
            break
        module = stage(module, metadata)
        _refuse_oversized_shared(int(metadata.get("shared") or 0))
    ptx = str(module)
    flags = _ptxas_flags(stages["cubin"], ptx, metadata)
    return Lowered(
        ptx=ptx,
        ptx_sha256=ptx_identity(ptx),
        metadata=json.dumps(metadata, default=vars),
        ptxas_flags=flags,
        num_warps=int(metadata["num_warps"]),
        shared_bytes=int(metadata["shared"]),
    )


def _options(launch: Launch, backend: Any) -> Any:
    return backend.parse_options(dict(launch.options))


_TENSOR_TYPE = re.compile(r"tensor<((?:\d+x)+)")


def _refuse_oversized_tiles(ttir: str, num_warps: int) -> None:
    largest, numel = "", 0
    for found in set(_TENSOR_TYPE.findall(ttir)):
        size = 1
        for extent in found[:-1].split("x"):
            size *= int(extent)
        if size > numel:
            largest, numel = found[:-1], size
    threads = 32 * num_warps
    if numel > MAX_ELEMENTS_PER_THREAD * threads:
        raise TileTooLarge(
            f"a tile of {largest} elements on {threads} threads is {numel // threads} a thread, "
            f"more than {MAX_ELEMENTS_PER_THREAD}"
        )


def _refuse_oversized_shared(shared_bytes: int) -> None:
    import torch

    properties: Any = torch.cuda.get_device_properties(0)
    limit = properties.shared_memory_per_block_optin
    if shared_bytes > limit:
        raise NeedsTooMuchShared(
            f"{shared_bytes} bytes of shared memory a block: {properties.name} has {limit}"
        )


def ptx_identity(ptx: str) -> str:
    """sha256 of the PTX without its debug lines, which hold file names and line numbers, not code."""
    code: list[str] = []
    for line in ptx.splitlines():
        text = line.split("//", 1)[0].strip()
        if text.startswith(".section"):
            break  # debug sections come last
        if text and not text.startswith((".loc", ".file", "$L__tmp", "$L__func")):
            code.append(text)
    return hashlib.sha256("\n".join(code).encode()).hexdigest()


class _Recorded(Exception):
    """Ends Triton's cubin stage once its command line is known."""


def _ptxas_flags(cubin_stage: Any, ptx: str, metadata: dict[str, Any]) -> tuple[str, ...]:
    """The flags that Triton's cubin stage passes to ptxas, recorded from Triton rather than repeated here."""
    command: list[str] = []

    def record(argv: list[str], **kwargs: Any) -> None:
        command.extend(argv)
        log = getattr(kwargs.get("stderr"), "name", None)
        for leftover in (log, argv[argv.index("-o") - 1]):
            if isinstance(leftover, str):
                Path(leftover).unlink(missing_ok=True)
        raise _Recorded

    with _replaced_subprocess(record), contextlib.suppress(_Recorded):
        cubin_stage(ptx, dict(metadata))
    source_at = command.index("-o") - 1
    return tuple(command[1:source_at])


@contextlib.contextmanager
def _replaced_subprocess(run: Any) -> Iterator[None]:
    from triton.backends.nvidia import compiler

    stand_in = types.SimpleNamespace(**{k: getattr(subprocess, k) for k in subprocess.__all__})
    stand_in.run = run
    original, compiler.subprocess = compiler.subprocess, stand_in
    try:
        yield
    finally:
        compiler.subprocess = original
