"""The other end of worker_pool.Worker: a host object in this process that answers calls on a channel."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from helitune.acfs.errors import UserError

from .telling_line import telling_line


def serve(channel: Connection, make_host: Callable[..., Any]) -> None:
    """Answer calls on `channel` until it closes: ("returned", value), ("raised", error) or ("broke", error).

    The call "load" makes the host from keyword arguments. A host with a true `broken` (a CUDA context after an
    illegal access, which every later call would fail with) ends the process after its answer.
    """
    channel.send(os.getpid())
    host: Any = None
    while True:
        try:
            method, arguments = channel.recv()
        except EOFError:
            return
        try:
            if method == "load":
                host, answer = make_host(**arguments[0]), None
            else:
                answer = getattr(host, method)(*arguments)
            channel.send(("returned", answer))
        except UserError as error:
            channel.send(("raised", error))
        except MemoryError:
            raise  # the memory limit: this process is no longer to be trusted
        except BaseException as error:  # noqa: BLE001  whatever a compiler raises costs one candidate
            said = (type(error).__name__, telling_line(error))
            if getattr(host, "broken", False):
                channel.send(("broke", said))
                return
            channel.send(("raised", said))
