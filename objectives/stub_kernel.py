"""A kernel of a few lines of PTX, to see what a ptxas really takes: an architecture, a PTX version, an ACF."""

from __future__ import annotations

from pathlib import Path

from .assemble import AssembleFailed, AssembleTimeout, assemble

TIMEOUT_S = 30.0
MEMORY_BYTES = 8 << 30

_STUB = """\
.version {version}
.target {target}
.address_size 64
.visible .entry stub(.param .u64 out)
{{
  .reg .b64 %address;
  .reg .b32 %thread;
  ld.param.u64 %address, [out];
  cvta.to.global.u64 %address, %address;
  mov.u32 %thread, %tid.x;
  mad.wide.u32 %address, %thread, 4, %address;
  st.global.u32 [%address], %thread;
  ret;
}}
"""


def stub_fault(ptxas: Path, arch: str, ptx_version: int, acf: Path | None = None) -> str:
    """ "" where `ptxas` compiles the stub for `arch` ("sm_90"), with `acf` if given; else why it does not.

    `ptx_version` counts as Triton does: 94 is PTX 9.4.
    """
    target = triton_target(arch)
    ptx = _STUB.format(version=f"{ptx_version // 10}.{ptx_version % 10}", target=target)
    flags = [f"--gpu-name={target}"]
    try:
        assemble(ptxas, ptx, flags, acf, timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES)
    except (AssembleFailed, AssembleTimeout) as error:
        return str(error)
    except OSError as error:
        return f"{ptxas} cannot be run: {error.strerror or error}"
    return ""


def triton_target(arch: str) -> str:
    """The target that Triton writes for `arch`: with the architecture's own instructions from Hopper on."""
    return f"{arch}a" if int(arch.removeprefix("sm_")) >= 90 else arch
