"""What must be found again where a pin is used: the same for each of the forms that a pin is used in.

Evidence `compiled` was made without a GPU: it names an architecture and no GPU, and that architecture has to be
met exactly. A measured pin names its GPU too, and then an H100 is no H200.
"""

from __future__ import annotations

from .pin import Pin

PTXAS_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
"""Where Triton reads which ptxas to run, the second for Blackwell."""

PACKAGES = ("helion", "triton", "torch")
"""The packages that decide the code; a build tag ("+cu130") does not count."""

GPU = "gpu"
"""The entry for the architecture, as "sm_90"."""

GPU_NAME = "gpu name"
"""The entry for the product, as "NVIDIA H200"; only where the pin was measured on one."""


def pinned_environment(pin: Pin) -> dict[str, str]:
    """What a pin was verified with, by name: versions, GPU, the kernel file's sha256, and ptxas for an ACF."""
    ptxas = f"ptxas {pin.fingerprint['ptxas']['version']}"
    name = gpu_name(pin)
    return {
        **pinned_versions(pin),
        GPU: pin.gpu,
        **({GPU_NAME: name} if name else {}),
        # an ACF fits one ptxas version; a config alone is valid with any
        **(dict.fromkeys(PTXAS_VARIABLES, ptxas) if pin.acf else {}),
        pin.file: pin.source_sha256,
    }


def pinned_versions(pin: Pin) -> dict[str, str]:
    """The version of each of PACKAGES that the pin was verified with, without its build tag."""
    versions: dict[str, str] = pin.fingerprint["packages"]
    return {name: versions[name].partition("+")[0] for name in PACKAGES}


def gpu_name(pin: Pin) -> str | None:
    """The name of the GPU that a pin was measured on, as CUDA gives it; None where it only was compiled."""
    gpu = pin.fingerprint.get("gpu")
    name = gpu.get("name") if isinstance(gpu, dict) else None
    return name if isinstance(name, str) else None
