"""What this machine can do, in checks: Python, packages, GPU, ptxas, search space, environment, disk, cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from helitune.acfs.ptxas import toolkit
from helitune.objectives.installed_stack import look_at_stack

from .doctor_check import Check
from .doctor_gpu import gpu_checks, visible_device
from .doctor_machine import cache_check, disk_check, environment_checks
from .doctor_packages import package_checks, python_check
from .doctor_toolchain import all_toolchain_checks, chosen_ptxas

DEFAULT_ARCH = "sm_90"
"""What `tune` compiles for on a machine without a GPU."""
DEFAULT_TOOLKIT = "13.3"


def examine(environment: Mapping[str, str]) -> Iterator[Check]:
    """The checks, each as soon as it is done; a machine at fault makes a check fail and raises nothing.

    Nothing is changed: no clock, no cache, and nothing is downloaded.
    """
    yield python_check()
    device, error = visible_device()
    chosen = chosen_ptxas()
    arch = device.arch if device else DEFAULT_ARCH
    release = toolkit(chosen.ptxas.version) if chosen.ptxas else DEFAULT_TOOLKIT
    stack = look_at_stack(arch, release, device.uuid if device else "")
    yield from package_checks(stack)
    yield from gpu_checks(device, error, stack, environment)
    yield from all_toolchain_checks(chosen, arch, stack, environment)
    yield from environment_checks(environment)
    yield disk_check()
    yield cache_check()
