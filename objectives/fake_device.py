"""A CUDA device that is not there: enough of it that Helion and Triton compile for a named target.

Only compile processes install it, and only before `helion` is imported (Helion and Inductor keep what they
found at import). Nothing compiled here is ever launched, and the evidence from it says `compiled`.
"""

from __future__ import annotations

import types
from typing import Any

from .targets import Target


def device_properties(target: Target) -> types.SimpleNamespace:
    """The fields of torch.cuda.get_device_properties that Helion, Inductor and Triton read, for `target`."""
    return types.SimpleNamespace(
        name=target.name,
        major=target.capability[0],
        minor=target.capability[1],
        multi_processor_count=target.sms,
        total_memory=target.memory_bytes,
        warp_size=32,
        regs_per_multiprocessor=target.registers_per_sm,
        max_threads_per_multi_processor=target.max_warps_per_sm * 32,
        max_threads_per_block=target.max_threads_per_block,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=target.shared_per_block_optin_bytes,
        shared_memory_per_multiprocessor=target.shared_per_sm_bytes,
        L2_cache_size=target.l2_bytes,
        gcnArchName="",
    )


def install(target: Target) -> None:
    """Make torch.cuda and Triton's driver answer as one `target` device would, without touching CUDA."""
    import torch

    properties = device_properties(target)
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda device=None: target.capability
    cuda.get_device_properties = lambda device=None: properties
    cuda.get_device_name = lambda device=None: target.name
    cuda.is_current_stream_capturing = lambda: False
    cuda.synchronize = lambda device=None: None
    torch.version.cuda = torch.version.cuda or "13.0"
    _keep_cuda_asleep()
    _install_driver(target)


def _keep_cuda_asleep() -> None:
    """Let FakeTensorMode believe in the device without starting CUDA: it makes a real tensor on it first."""
    from torch._subclasses import fake_tensor

    for name in ("init_gpu_context", "init_cuda_context"):
        if hasattr(fake_tensor, name):
            setattr(fake_tensor, name, lambda *device: None)


def warm_up() -> None:
    """Make one FakeTensor on the device, so that a CUDA build of torch has counted its (hidden) GPUs.

    It counts once, and cannot under the memory limit of a worker: the CUDA driver reserves address space.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.empty(1, device="cuda")


def _install_driver(target: Target) -> None:
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    gpu = GPUTarget("cuda", target.capability[0] * 10 + target.capability[1], 32)

    class CompileOnlyDriver:
        """Triton's driver interface as far as compilation reads it."""

        def get_current_target(self) -> Any:
            return gpu

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            pass

        def get_current_stream(self, device: int | None = None) -> int:
            return 0

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_active_torch_device(self) -> Any:
            return torch.device("cuda", 0)

    driver.set_active(CompileOnlyDriver())
