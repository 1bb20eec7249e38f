"""The child process of check_child.py: checks a kernel's source in Helion's interpreter, prints one JSON line.

`python -m helitune.objectives.interpreter_check REQUEST` with REQUEST the JSON of a CheckRequest, or "-" for
standard input. What the kernel file prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError, UserError

from .check_result import CheckRequest, CheckResult

_PARENT_POLL_S = 1.0


def main(argument: str) -> None:
    """Print the line for the request: {"result": …} or {"error": …}."""
    answer_fd = os.dup(1)
    os.dup2(2, 1)
    _end_with_parent()
    # Helion reads it when it is imported
    os.environ["HELION_INTERPRET"] = "1"
    request = CheckRequest.from_json(json.loads(sys.stdin.read() if argument == "-" else argument))
    answer: dict[str, Any]
    try:
        answer = {"result": check(request).to_json()}
    except UserError as error:
        kind = "MachineError" if isinstance(error, MachineError) else "InputError"
        answer = {
            "error": {"kind": kind, "what": error.what, "where": error.where, "next_step": error.next_step}
        }
    os.write(answer_fd, (json.dumps(answer) + "\n").encode())


def check(request: CheckRequest) -> CheckResult:
    """The result for one request; Helion must be in interpreter mode. Raises UserErrors as loading does."""
    import torch

    from . import interpreter_shims
    from .discovery import load_workload
    from .source_check import check_source

    torch.set_num_threads(1)
    products = interpreter_shims.install()
    workload = load_workload(Path(request.file), request.kernel, request.reference, request.args)
    if not workload.kernel.settings.ref_mode.value == "eager":
        raise InputError(
            f"{workload.kernel_name} switches Helion's interpreter off",
            where=request.file,
            next_step="leave ref_mode out of its settings",
        )
    try:
        return check_source(workload, seeds=request.seeds, base_seed=request.base_seed)
    finally:
        # the products are registered as long as this lives
        del products


def _end_with_parent() -> None:
    # a parent that ended before this line would never be missed: it says who it is
    parent = int(os.environ.get("HELITUNE_PARENT", os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "-")
