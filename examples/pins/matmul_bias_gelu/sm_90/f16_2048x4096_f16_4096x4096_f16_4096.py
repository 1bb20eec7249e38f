"""The Helion kernel matmul_bias_gelu as pinned for sm_90 by helitune pin. Evidence: compiled.

Verified: plain Helion compiles it, for SHAPES, to the code that was ranked; the
source's outputs, in Helion's interpreter, agree with matmul_bias_gelu_reference on
f16[256,512] f16[512,512] f16[512] (scaled down).

Use it as `matmul_bias_gelu = pin.guarded(matmul_bias_gelu)`: pinned for calls of SHAPES in ENVIRONMENT, else
as it was; or `matmul_bias_gelu = pin.tuned(matmul_bias_gelu)`: pinned for all calls, wherever it runs.
"""

import hashlib
import importlib.metadata
import warnings
from pathlib import Path

import helion
import torch

KERNEL = "matmul_bias_gelu"
MODULE = "matmul_bias_gelu"
# each pinned call: [dtype, shape, strides] of a tensor, the text of anything else
SHAPES = [
    [
        ["float16", [2048, 4096], [4096, 1]],
        ["float16", [4096, 4096], [4096, 1]],
        ["float16", [4096], [1]],
    ],
]
ENVIRONMENT = {
    "helion": "1.5.1",
    "triton": "3.9.0",
    "torch": "2.13.0",
    "gpu": "sm_90",
    "matmul_bias_gelu.py": "e1d6d5a0059a949cd595c0eb499c1f7bddbf02a04d4692cb4aef33bc48f8b9f2",
}
CONFIG = helion.Config(
    atomic_indexing=[],
    block_sizes=[128, 128, 128],
    host_tensor_descriptors=False,
    indexing=["pointer", "pointer", "pointer", "pointer"],
    l2_groupings=[1],
    load_eviction_policies=["last", "last", ""],
    loop_orders=[[1, 0]],
    num_stages=4,
    num_warps=8,
    pid_type="flat",
    range_flattens=[None, False],
    range_multi_buffers=[None, True],
    range_num_stages=[0, 4],
    range_unroll_factors=[0, 2],
    range_warp_specializes=[],
)


def tuned(kernel):
    """The pinned variant of a Helion kernel, with the kernel's own settings."""
    key = getattr(kernel, "_key_fn", None)
    return helion.kernel(kernel.fn, config=CONFIG, settings=kernel.settings, key=key)


def guarded(kernel):
    """The pinned variant for calls that match; `kernel` for others and elsewhere."""
    if changed := check_environment(kernel):
        message = f"pin of {KERNEL} not used, made for another environment: "
        warnings.warn(message + "; ".join(changed), stacklevel=2)
        return kernel
    variant = tuned(kernel)

    def call(*args):
        filled = kernel.signature.bind(*args)
        filled.apply_defaults()
        pinned = matches(*args) or matches(*filled.args)
        return (variant if pinned else kernel)(*args)

    return call


def matches(*args):
    """Whether dtypes, shapes, strides and scalars are those of a pinned call."""
    return [_described(arg) for arg in args] in SHAPES


def check_environment(kernel=None):
    """What differs from where the pin was verified; empty where nothing does."""
    source = Path(kernel.fn.__code__.co_filename) if kernel else Path()
    return _changed(ENVIRONMENT, source)


def _changed(environment, source):
    changed = []
    for name, pinned in environment.items():
        known = not name.endswith(".py") or source.name
        found = _found(name, source) if known else pinned
        if found != pinned:
            how = "edited" if name.endswith(".py") else f"{pinned} → {found}"
            changed.append(f"{name} {how}")
    return changed


def _found(name, source):
    if name.endswith(".py"):
        content = source.read_bytes() if source.is_file() else b""
        return hashlib.sha256(content).hexdigest()
    if name.startswith("gpu"):
        if not torch.cuda.is_available():
            return "no GPU"
        if name == "gpu name":
            return torch.cuda.get_device_name()
        return "sm_{}{}".format(*torch.cuda.get_device_capability())
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _described(arg):
    if isinstance(arg, torch.Tensor):
        dtype = str(arg.dtype).removeprefix("torch.")
        return [dtype, list(arg.shape), list(arg.stride())]
    if hasattr(arg, "__qualname__"):
        return f"{arg.__module__}.{arg.__qualname__}"
    return type(arg).__name__ if isinstance(arg, list | tuple | dict) else str(arg)


def __getattr__(name):  # the variant itself, where the kernel's module can be imported
    if name != KERNEL:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = tuned(getattr(importlib.import_module(MODULE), KERNEL))
    return globals()[name]
