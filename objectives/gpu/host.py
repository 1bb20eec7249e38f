"""The kernel inside the GPU process: candidates that others compiled, loaded, checked and timed, one at a time."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from helitune.acfs.errors import MachineError
from helitune.objectives.arm_times import ArmRound, Standing
from helitune.objectives.build import Build
from helitune.objectives.compile_cache import CompileCache
from helitune.objectives.discovery import LoadedWorkload, load_workload
from helitune.objectives.times import OwnTimes, Race, ShapeTimes, Tried

from .arms import Arms, pads
from .loaded import Drift, Loader
from .nvml import open_nvml
from .stand import Stand, free_memory

IDLE_S = 0.5
"""After this long without work the clock may have dropped: the own config is run until its times agree."""


class Spent:
    """Where the seconds of one candidate went, for the record of what the GPU process does with its time."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def note(self, what: str) -> None:
        """The time since the last note was spent on `what`."""
        now = time.monotonic()
        self.seconds[what] = now - self._last
        self._last = now


class GpuHost:
    """A kernel file loaded on the real GPU. `own` is the own config's build, None until one is known.

    `file`, `kernel`, `reference` and `args` are what the command line said; `cache_root` is where compiled
    things lie; `graph` and `cold` say how to time.
    """

    def __init__(
        self,
        file: str,
        kernel: str | None,
        reference: str | None,
        args: Sequence[str],
        seed: int,
        cache_root: str,
        graph: bool,
        cold: bool,
        own: Build | None = None,
        launches: Sequence[int] = (),
    ) -> None:
        torch.cuda.init()
        torch.empty(1, device="cuda")
        self._workload: LoadedWorkload = load_workload(Path(file), kernel, reference, args)
        self._seed = seed
        self._graph = graph
        self._cold = cold
        self._scratch = tempfile.TemporaryDirectory(prefix="helitune-gpu-")
        self._loader = Loader(CompileCache(Path(cache_root)), Path(self._scratch.name))
        self._sensors = open_nvml(str(torch.cuda.get_device_properties(0).uuid))
        self._stands: list[Stand] = []
        self._arms: list[Arms] = []
        self._pads: list[torch.Tensor] = []
        self._worked_at = time.monotonic()
        if own is not None and (wrong := self.use_own(own, launches).wrong):
            raise MachineError(
                f"the kernel's own config agreed with its reference before, and now does not: {wrong}",
                where=file,
                next_step="run it again: nothing can be judged beside a config that is wrong sometimes",
            )

    @property
    def broken(self) -> bool:
        """Whether CUDA answers nothing more in this process, as after an illegal access."""
        try:
            torch.cuda.synchronize()
        except Exception:  # noqa: BLE001  whatever it says: it is broken
            return True
        return False

    def use_own(self, own: Build, launches: Sequence[int] = ()) -> OwnTimes:
        """The own config checked and timed; candidates are measured beside it from now on.

        `launches` are those of an earlier process, which need not be found out again.
        """
        self._stands = []
        stands = [
            Stand(
                self._workload,
                shape,
                self._seed,
                self._loader,
                build,
                self._sensors,
                graph=self._graph,
                cold=self._cold,
                launches=launches[shape] if launches else None,
            )
            for shape, build in enumerate(own)
        ]
        wrong = next((stand.own.wrong for stand in stands if stand.own.wrong), "")
        error = max(stand.own.max_rel_error for stand in stands)
        if wrong:
            return OwnTimes(wrong, (), (), (), error)
        self._stands = stands
        self._worked_at = time.monotonic()
        return OwnTimes(
            wrong="",
            ms=tuple(stand.own_ms for stand in stands),
            cold=tuple(stand.rotation.cold for stand in stands),
            mutated_bytes=tuple(stand.rotation.mutated_bytes for stand in stands),
            launches=tuple(stand.launches for stand in stands),
            max_rel_error=error,
        )

    def try_build(self, build: Build, race: Race) -> Tried:
        """The candidate checked on every shape, and timed where every output agrees."""
        return self._guarded(lambda: self._try(build, race))

    def soak(self, builds: Sequence[Build], repeats: int) -> list[str]:
        """For each build an empty text where all of `repeats` runs a shape agree, else the first that does not.

        Every run is on inputs of its own.
        """
        wrong = [""] * len(builds)
        for index, stand in enumerate(self._stands):
            kernels = [stand.load(build[index]) for build in builds]
            for found, place in zip(stand.gate.soak(kernels, repeats), range(len(builds)), strict=True):
                wrong[place] = wrong[place] or found
        return wrong

    def place(self, seed: int) -> tuple[int, ...]:
        """Bytes of the allocations that displace whatever is made from now on; what stood before is gone."""
        self._stands, self._arms, self._pads = [], [], []
        gc.collect()
        self._pads = pads(seed)
        return tuple(pad.numel() for pad in self._pads)

    def stand_arms(self, builds: Mapping[str, Build]) -> list[Standing]:
        """How the arms of each shape are timed; they are loaded anew in the order of `builds`, and stand now."""
        self._arms = []
        for shape, stand in enumerate(self._stands):
            on_shape = {name: build[shape] for name, build in builds.items()}
            arms = Arms(stand, on_shape, self._sensors, graph=self._graph)
            arms.warm_up(at_most_s=3.0)
            self._arms.append(arms)
        self._worked_at = time.monotonic()
        return [arms.standing for arms in self._arms]

    def arm_rounds(self, orders: Sequence[Sequence[str]]) -> list[list[ArmRound]]:
        """For each order a round on every shape, by the arms that stand."""
        if time.monotonic() - self._worked_at > IDLE_S:
            for arms in self._arms:
                arms.warm_up(at_most_s=1.0)
        rounds = [[arms.round(order) for arms in self._arms] for order in orders]
        self._worked_at = time.monotonic()
        return rounds

    def ready(self) -> str:
        """The GPU's name, once this process can use it."""
        return str(torch.cuda.get_device_name(0))

    def _try(self, build: Build, race: Race) -> Tried:
        spent = Spent()
        self._keep_warm()
        spent.note("warm")
        kernels = [stand.load(shape) for stand, shape in zip(self._stands, build, strict=True)]
        error = 0.0
        for stand, kernel in zip(self._stands, kernels, strict=True):
            checked = stand.gate.check(kernel)
            if checked.wrong:
                return Tried(stage="wrong_output", message=checked.wrong, max_rel_error=checked.max_rel_error)
            error = max(error, checked.max_rel_error)
        spent.note("check")
        times: list[ShapeTimes] = [
            stand.time(kernel, race) for stand, kernel in zip(self._stands, kernels, strict=True)
        ]
        spent.note("time")
        return Tried(tuple(times), error, spent_s=spent.seconds)

    def _guarded(self, call: Callable[[], Tried]) -> Tried:
        try:
            return call()
        except Drift as error:
            return Tried(stage="drift", message=str(error))
        except torch.OutOfMemoryError as error:
            message = str(error).splitlines()[0]
            del error
            gc.collect()
            torch.cuda.empty_cache()
            return Tried(stage="out_of_memory", message=message)
        finally:
            free_memory()
            self._worked_at = time.monotonic()

    def _keep_warm(self) -> None:
        if time.monotonic() - self._worked_at > IDLE_S:
            for stand in self._stands:
                stand.warm_up(at_most_s=0.3)

    def limits(self) -> Any:
        """The rates of this GPU: limits.measure_limits."""
        from .limits import measure_limits

        return measure_limits()
