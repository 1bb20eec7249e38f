"""A pin compiled as a process without helitune compiles it: Helion's code, then all of triton.compile.

Nothing is shared with objectives/lowering.py, which takes that pipeline apart: what both agree on is true of
Helion and Triton themselves.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .elf import code_hash
from .triton_launches import Launch, capture_launches


def save_helion_form(config: Mapping[str, Any], path: Path) -> None:
    """None; `path` then holds what helion.Config.save writes of `config`. Raises OSError."""
    import helion

    helion.Config(**config).save(path)


def plain_code(workload: Any, form: Mapping[str, Any] | str, shape: int) -> tuple[str, ...]:
    """CODE_SHA256:GRID of each launch of one call, in the order and spelling of `Compiled.code`.

    `workload` is a LoadedWorkload, `form` a config, or the path of a pin's Helion form (.json) or Python form
    (.py). Whatever the form, Helion or Triton raise is passed on.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    kernel, config = _opened(form, workload.kernel)
    fake_mode = FakeTensorMode()
    arguments = workload.fake_arguments(shape, fake_mode)
    bound = kernel.bind(tuple(arguments))
    host_function = bound.compile_config(config, allow_print=False)
    launches, _ = capture_launches(host_function, arguments, fake_mode)
    return tuple(f"{code_hash(_cubin(launch))}:{'x'.join(map(str, launch.grid))}" for launch in launches)


def _opened(form: Mapping[str, Any] | str, kernel: Any) -> tuple[Any, Any]:
    """The kernel and the config that a form stands for."""
    import helion

    if not isinstance(form, str):
        return kernel, helion.Config(**form)
    if not form.endswith(".py"):
        return kernel, helion.Config.load(form)
    spec = importlib.util.spec_from_file_location("pin_under_verification", form)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    differing = module.check_environment(kernel)
    if differing:
        raise RuntimeError(f"it does not accept the environment it is verified in: {'; '.join(differing)}")
    variant = module.tuned(kernel)
    return variant, variant.configs[0]


def _cubin(launch: Launch) -> bytes:
    import triton

    compiled = triton.compile(launch.source, target=launch.target, options=launch.options)
    cubin: bytes = compiled.asm["cubin"]
    return cubin
