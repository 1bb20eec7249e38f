"""Whether this process may lock GPU clocks, told without trying: the driver asks for a capability, not for root.

NVIDIA's kernel module takes a caller for an administrator when capable(CAP_SYS_ADMIN) holds (NV_IS_SUSER in
nv-linux.h of its open kernel modules), which is a capability in the machine's first user namespace.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

_CAP_SYS_ADMIN = 21
"""Its bit in CapEff (linux/capability.h)."""

_WHOLE_RANGE = ["0", "0", "4294967295"]
"""What /proc/self/uid_map holds in the first user namespace."""


class Permission(Enum):
    """Whether locking is permitted, as far as it can be known."""

    GRANTED = "granted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def lock_permission(process: Path = Path("/proc/self"), user_id: int | None = None) -> Permission:
    """Whether this process may lock clocks, read from its status and its user namespace."""
    user_id = os.geteuid() if user_id is None else user_id
    try:
        status = (process / "status").read_text()
        uid_map = (process / "uid_map").read_text().split()
        effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
        capable = bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)
    except (OSError, StopIteration, IndexError, ValueError):
        return Permission.UNKNOWN
    if not capable or uid_map != _WHOLE_RANGE:
        return Permission.REFUSED
    # NVML itself documents these calls as root's: the capability without the user is not tried ground
    return Permission.GRANTED if user_id == 0 else Permission.UNKNOWN
