"""Describe one GPU through the CUDA driver's C interface, and print it as a line of JSON.

`python -m helitune.objectives.gpu.probe INDEX` prints {"device": {...}}, {"device": null} where there is no
driver or no GPU, or {"error": ..., "next_step": ...}. Attribute numbers: CUdevice_attribute in cuda.h.
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from typing import Any

from .nvml import open_nvml

_ATTRIBUTES = {
    "sms": 16,
    "l2_bytes": 38,
    "max_threads_per_sm": 39,
    "max_blocks_per_sm": 106,
    "registers_per_sm": 82,
    "shared_per_sm_bytes": 81,
    "shared_per_block_reserved_bytes": 111,
    "sm_clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
}
_CAPABILITY = (75, 76)
_NO_DEVICE = 100


class _DriverError(Exception):
    """A call of the driver failed."""


def main(index: int) -> None:
    """Print the answer for GPU number `index`."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        print(json.dumps({"device": None}))
        return
    try:
        print(json.dumps(describe(driver, index)))
    except _DriverError as error:
        print(json.dumps({"error": str(error), "next_step": "see whether nvidia-smi lists the GPU"}))


def describe(driver: Any, index: int) -> dict[str, Any]:
    """The answer for GPU number `index`; raises _DriverError."""
    status = driver.cuInit(0)
    if status == _NO_DEVICE:
        return {"device": None}
    _require(status, "cuInit")
    count = _int(driver.cuDeviceGetCount, "cuDeviceGetCount")
    if count == 0:
        return {"device": None}
    if index >= count:
        visible = f"{count} GPU{'s' * (count > 1)} visible"
        return {"error": f"no GPU {index}: {visible}", "next_step": "choose a smaller --device"}
    device = _int(lambda out: driver.cuDeviceGet(out, index), "cuDeviceGet")
    name = ctypes.create_string_buffer(256)
    _require(driver.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    memory = ctypes.c_size_t()
    _require(driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device), "cuDeviceTotalMem")
    unique = (ctypes.c_ubyte * 16)()
    _require(driver.cuDeviceGetUuid(ctypes.byref(unique), device), "cuDeviceGetUuid")
    name_of = f"GPU-{uuid.UUID(bytes=bytes(unique))}"
    numbers = {key: _attribute(driver, number, device) for key, number in _ATTRIBUTES.items()}
    return {
        "device": {
            "index": index,
            "name": name.value.decode(errors="replace"),
            "uuid": name_of,
            "driver": _driver_version(driver, name_of),
            "capability": [_attribute(driver, number, device) for number in _CAPABILITY],
            "memory_bytes": memory.value,
            **numbers,
        }
    }


def _driver_version(driver: Any, gpu: str) -> str:
    """The version of the kernel module; of its CUDA interface where NVML does not tell."""
    sensors = open_nvml(gpu)
    version = sensors.driver_version() if sensors is not None else None
    if version is not None:
        return version
    number = _int(driver.cuDriverGetVersion, "cuDriverGetVersion")
    return f"CUDA {number // 1000}.{number % 1000 // 10}"


def _attribute(driver: Any, number: int, device: int) -> int:
    """An attribute's value; 0 for one that this driver does not know."""
    value = ctypes.c_int()
    status = driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value if status == 0 else 0


def _int(call: Any, what: str) -> int:
    value = ctypes.c_int()
    _require(call(ctypes.byref(value)), what)
    return value.value


def _require(status: int, what: str) -> None:
    if status != 0:
        raise _DriverError(f"the CUDA driver answers {what} with error {status}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
