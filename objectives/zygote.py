"""A process that has imported torch, Triton and Helion for one target and forks workers on request.

Importing takes seconds and forking milliseconds, so a worker that had to be killed is replaced at once. It is
started as `python -m helitune.objectives.zygote CONTROL_FD TARGET` and reads its requests, one file descriptor
each, from the control socket: every descriptor becomes the channel of a new worker. TARGET is what compile
workers compile for (targets.spelled), or "gpu": then its workers own the real GPU, one at a time, and this
process itself never starts CUDA, which could not be forked.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from . import fake_device
from .serve import serve
from .targets import read_target

_PR_SET_PDEATHSIG = 1

GPU = "gpu"
"""The target of a zygote whose workers own the real GPU."""


def main(control_fd: int, target_name: str) -> None:
    """Serve fork requests until the control socket closes, which it does however the parent ends.

    Dying with the parent by Linux's own means would be wrong here: to Linux the parent is the thread that
    started this process, and that may be one of a pool of threads.
    """
    os.dup2(2, 1)  # whatever a kernel file prints goes to the log, never into a channel or our stdout
    on_gpu = target_name == GPU
    if not on_gpu:
        fake_device.install(read_target(target_name))
    import helion  # noqa: F401  the point of this process
    import torch
    import triton  # noqa: F401

    torch.set_num_threads(1)
    if not on_gpu:
        fake_device.warm_up()
    elif torch.cuda.is_initialized():
        raise RuntimeError("importing torch, Triton and Helion started CUDA: its workers could not")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers are reaped by the kernel
    control = socket.socket(fileno=control_fd)
    control.sendall(b"ready")
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 16, 1)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            _become_worker(descriptors[0], on_gpu)
        os.close(descriptors[0])


def _become_worker(channel_fd: int, on_gpu: bool) -> None:
    os.setsid()  # its own process group, so that it can be killed with what it started
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    status = 1
    try:
        serve(Connection(channel_fd), _host(on_gpu))
        status = 0
    except BaseException:  # noqa: BLE001  this process ends here, and its log is where it can say why
        traceback.print_exc()
    finally:
        os._exit(status)


def _host(on_gpu: bool) -> Any:
    if on_gpu:
        from .gpu.host import GpuHost

        return GpuHost
    from .kernel_host import KernelHost

    return KernelHost


def die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that forked it ends, however that happens."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(int(sys.argv[1]), sys.argv[2])
