"""The child process of helion_peer.py: Helion's own autotuner on one kernel and shape, as plain Helion runs it.

`python -P -m helitune.objectives.gpu.helion_autotune REQUEST` with REQUEST the JSON of a PeerRequest and, as
"output", the path of the answer: {"result": …} or {"error": …}. "-" reads it from standard input. Helion, and
what it starts, log to stdout and stderr.

Helion's benchmark processes import this module again: torch and Helion are imported when they are used.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from helitune.acfs.errors import InputError, MachineError, UserError
from helitune.acfs.paths import atomic_write

from ..baseline_configs import acf_path, as_json, without_acf
from ..peer_record import PeerRequest
from ..process_tree import kill_descendants
from ..telling_line import telling_line

_PARENT_POLL_S = 1.0


def main(argument: str) -> None:
    """Write the answer to the request."""
    _end_with_parent()
    fields = json.loads(sys.stdin.read() if argument == "-" else argument)
    request, output = PeerRequest.from_json(fields), Path(fields["output"])
    answer: dict[str, Any]
    try:
        answer = {"result": search(request, output.with_name("helion"))}
    except Exception as error:  # noqa: BLE001  whatever Helion or CUDA raise becomes the answer
        traceback.print_exc()
        said = error if isinstance(error, UserError) else _as_user_error(error, request.file)
        kind = "MachineError" if isinstance(said, MachineError) else "InputError"
        answer = {
            "error": {"kind": kind, "what": said.what, "where": said.where, "next_step": said.next_step}
        }
    atomic_write(output, json.dumps(answer).encode())


def search(request: PeerRequest, log_base: Path) -> dict[str, Any]:
    """What Helion's autotuner found, as the fields of a PeerResult, with `acf_path` instead of its hash.

    Helion's CSV and log go to `log_base` with .csv and .log. Raises UserErrors as loading does, and whatever
    Helion raises.
    """
    import torch

    from ..discovery import load_workload
    from .autotune_watch import watched

    _require_gpu()
    end_forks_with_this_process()
    workload = load_workload(Path(request.file), request.kernel, request.reference, request.args)
    configure(workload.kernel.settings, request, log_base)
    arguments = workload.make_inputs(request.shape, device="cuda", seed=request.seed)
    torch.cuda.synchronize()
    with watched() as watch:
        # with force, Helion ignores configs that the kernel brings, and answers from no cache
        config = workload.kernel.autotune(arguments, force=True)
        seconds = watch.elapsed_s
    spec = workload.kernel.bind(tuple(arguments)).config_spec
    return {
        "config": as_json(spec.normalized_config(without_acf(config))),
        "acf_path": acf_path(config),
        "effort": request.effort,
        "seed": request.seed,
        "helion": version("helion"),
        "seconds": seconds,
        **watch.to_json(),
    }


def configure(settings: Any, request: PeerRequest, log_base: Path) -> None:
    """Set what the request decides and what Helion writes down; all else stays as the kernel and Helion have it.

    The result cache is Helion's ordinary one, in the fresh folder of the environment: kernels may name others.
    """
    from helion.autotuner.effort_profile import AutotuneEffort

    efforts = [effort for effort in get_args(AutotuneEffort) if effort != "none"]
    if request.effort not in efforts:
        raise InputError(
            f"Helion's autotuner has no effort {request.effort!r} that searches",
            where="--effort",
            next_step=f"choose from {', '.join(efforts)}",
        )
    settings.autotune_effort = request.effort
    paths = [str(acf.path) for acf in request.acfs]
    # the search starts from the first; Helion itself would put "no ACF" last
    settings.autotune_search_acf = ["", *paths] if paths else []
    settings.autotune_random_seed = request.seed % 2**32
    if request.budget_s is not None:
        settings.autotune_budget_seconds = max(1, round(request.budget_s))
    settings.autotune_cache = "LocalAutotuneCache"
    settings.autotune_log = str(log_base)
    settings.autotune_progress_bar = False


def _require_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise MachineError(
            "Helion's autotuner needs a GPU, and CUDA finds none",
            next_step="run it where nvidia-smi lists one, or choose a strategy that compiles only",
        )


def _as_user_error(error: Exception, file: str) -> UserError:
    """What Helion says of the kernel is the input's fault, all else (CUDA, memory, disk) the machine's."""
    import helion.exc

    said = f"{type(error).__name__}: {telling_line(error)}"
    if error.__cause__ is not None:
        said += f" ({type(error.__cause__).__name__}: {telling_line(error.__cause__)})"
    crashed = isinstance(error, helion.exc.TritonUnrecoverableRuntimeError)
    kind = InputError if isinstance(error, helion.exc.Base) and not crashed else MachineError
    return kind(f"Helion's autotuner failed: {said}", where=file, next_step="see its log for the whole error")


def end_forks_with_this_process() -> None:
    """Let what Helion forks end with this process: its compile processes have sessions of their own."""
    from ..zygote import die_with_parent

    forking = [0]

    def note() -> None:
        forking[0] = os.getpid()

    def end_with_parent() -> None:
        die_with_parent()
        if os.getppid() != forking[0]:  # it ended before Linux was asked
            os._exit(1)

    os.register_at_fork(before=note, after_in_child=end_with_parent)


def _end_with_parent() -> None:
    # a parent that ended before this line would never be missed: it says who it is
    parent = int(os.environ.get("HELITUNE_PARENT", os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        kill_descendants(os.getpid())
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "-")
