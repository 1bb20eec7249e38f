"""Everything a request needs to evaluate candidates: ptxas, target, ACFs, workers, joint space."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError, MachineError, UserError
from helitune.acfs.pack import Pack, read_packs
from helitune.acfs.paths import cache_root
from helitune.acfs.ptxas import Ptxas, find_ptxas
from helitune.acfs.store import AcfStore
from helitune.objectives.artifacts import Assembler
from helitune.objectives.assemble import kill_running
from helitune.objectives.compile_cache import CompileCache
from helitune.objectives.compile_environment import compile_environment, gpu_environment
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from helitune.objectives.device import Device
from helitune.objectives.evaluate import CompiledEvaluator, read_in_worker
from helitune.objectives.flop_count import FlopCount, stated_flops
from helitune.objectives.gpu_process import GpuProcess
from helitune.objectives.kernel_host import Description
from helitune.objectives.measured import MeasuredEvaluator
from helitune.objectives.targets import Target, spelled
from helitune.objectives.worker_pool import CallFailed, WorkerDied, WorkerPool, WorkerTimeout
from helitune.search.candidate import Candidate
from helitune.search.narrow import narrow
from helitune.search.space import Genome, JointSpace, Value

from .choose_device import find_target_and_device
from .request import TuneRequest
from .trial import Trial

DESCRIBE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class BaselineCandidate:
    """A candidate measured before the search: its name, and its place in the space where it has one."""

    name: str
    candidate: Candidate
    genome: Genome | None


@dataclass(frozen=True, slots=True)
class Tools:
    """What must be right before any kernel is loaded: ptxas, target, and the ACFs that fit both.

    `device` is the GPU that candidates are timed on, None where they are only compiled.
    """

    ptxas: Ptxas
    target: Target
    acfs: tuple[Acf, ...]
    packs: tuple[Pack, ...]
    device: Device | None = None


def find_tools(request: TuneRequest) -> Tools:
    """The ptxas, target, GPU and ACFs of a request; raises UserError for what is wrong with any of them."""
    ptxas = find_ptxas(request.ptxas)
    target, device = find_target_and_device(request)
    acfs, packs = read_packs(
        [Path(pack) for pack in request.packs],
        ptxas_version=ptxas.version,
        arch=target.arch,
        force=request.force,
    )
    if packs and not acfs:
        reasons = {refusal.reason for pack in packs for refusal in pack.refused}
        misfit = any(p.misfit for p in packs)
        kind = MachineError if misfit else InputError
        raise kind(
            f"no ACF of {', '.join(str(p.source) for p in packs)} can be used",
            where="; ".join(sorted(reasons)[:3]) or "it holds none",
            next_step="name another --acf-pack, leave it out to search configs alone"
            + (", or try these with --force" if misfit else ""),
        )
    return Tools(ptxas, target, _stored(acfs), packs, device)


def _stored(acfs: Sequence[Acf]) -> tuple[Acf, ...]:
    """The ACFs from the store; without any, a store that cannot be used is no fault."""
    if not acfs:
        return ()
    store = AcfStore(cache_root() / "acfs")
    return tuple(store.add(acf) for acf in acfs)


class Session:
    """A kernel file loaded in worker processes, with its joint space; a context manager that ends them.

    `compiled` is the folder of compiled PTX and cubins, by default the cache's: an empty one has all compiled anew.
    """

    def __init__(
        self, request: TuneRequest, tools: Tools, log: Path, *, compiled: Path | None = None
    ) -> None:
        self.request = request
        self.tools = tools
        self._compiled = compiled or cache_root() / "compiled"
        self.cache = CompileCache(self._compiled)
        self.gpu: GpuProcess | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="helitune-codegen-")
        if tools.device is not None:
            self.gpu = self._gpu_process(tools.device, log)
        self._pool = WorkerPool(
            request.worker_setup(self._compiled),
            target=spelled(tools.target),
            size=request.jobs,
            log=log,
            environment=compile_environment(tools.ptxas, os.environ, Path(self._scratch.name)),
        )
        try:
            self.description = self._describe(log)
            self._require_one_a_shape()
            dimensions = narrow(self.description.dimensions, request.settings)
        except BaseException:
            self._close()
            raise
        self.space = JointSpace(dimensions, (NO_ACF, *tools.acfs))
        assembler = Assembler(
            tools.ptxas,
            self.cache,
            request.compile_timeout_s,
            request.memory_bytes,
            read_in_worker(self._pool),
        )
        self.compiled = CompiledEvaluator(
            self._pool,
            assembler,
            self.description,
            target=tools.target,
            objective=OBJECTIVES.get(request.objective, OBJECTIVES[DEFAULT_OBJECTIVE]),
            compile_timeout_s=request.compile_timeout_s,
        )
        self.measured = MeasuredEvaluator(self.compiled, self.gpu) if self.gpu else None

    @property
    def evaluator(self) -> CompiledEvaluator | MeasuredEvaluator:
        """What the search asks: on a GPU times, else what the model says."""
        return self.measured or self.compiled

    @cached_property
    def baselines(self) -> list[BaselineCandidate]:
        """The kernel's own configs, Helion's default and its seeds, without repeats.

        Read once: the ACF that an own config names is recorded and measured as the same content.
        """
        found: list[BaselineCandidate] = []
        for baseline in self.description.baselines:
            acf = _own_acf(baseline.acf_path, self.request.file)
            genome = self.space.encode(baseline.slots, acf)
            found.append(BaselineCandidate(baseline.name, Candidate.of(baseline.config, acf), genome))
        return found

    def bytes_moved(self, mutated_bytes: Sequence[int]) -> tuple[int, ...]:
        """Bytes that one call must move, one number a shape: as --bytes says, else the workload.

        `mutated_bytes` are those of arguments that the kernel writes in place, which only running it shows.
        """
        derived = (a + b for a, b in zip(self.description.bytes_moved, mutated_bytes, strict=True))
        return self.request.bytes_moved or tuple(derived)

    @property
    def flops(self) -> tuple[FlopCount | None, ...]:
        """FLOPs of one call, one count a shape: as --flops says, else what the reference does."""
        derived, shapes = self.description.flops, self.description.record.shapes
        if not self.request.flops:
            return derived
        return tuple(
            stated_flops(total, known, shape)
            for total, known, shape in zip(self.request.flops, derived, shapes, strict=True)
        )

    def slots_of(self, config: dict[str, Any]) -> tuple[Value, ...]:
        """One value a slot for a config of this kernel; InputError where Helion has no such config for it."""
        slots: tuple[Value, ...] | str = self._pool.call("slots", config, timeout_s=DESCRIBE_TIMEOUT_S)
        if isinstance(slots, str):
            raise InputError(
                f"Helion's config space for this kernel has no such config: {slots}",
                where="--config",
                next_step="give one that helion.Config.save wrote for this kernel, own, or best",
            )
        return slots

    def candidate(self, trial: Trial) -> Candidate:
        """The candidate of a trial of this run; its ACF is one of the space's or of the baselines'."""
        known = {acf.sha256: acf for acf in self.space.known_acfs}
        known |= {b.candidate.acf.sha256: b.candidate.acf for b in self.baselines}
        return Candidate.of(trial.config, known[trial.acf_sha256])

    def start_workers(self) -> None:
        """Have every compile process load and bind the kernel meanwhile, by compiling the own config in each."""
        own = self.baselines[0].candidate.config

        def start() -> None:
            self._pool.call("build", own, 0, timeout_s=DESCRIBE_TIMEOUT_S)

        for _ in range(self.request.jobs):
            threading.Thread(target=_quietly(start), name="worker start", daemon=True).start()

    def compile_plainly(self, candidate: Candidate, shape: int) -> tuple[str, ...]:
        """Code hashes of the candidate as plain Helion and Triton compile it, all stages, nothing reused."""
        controls = {"advanced_controls_file": str(candidate.acf.path)} if candidate.acf.path else {}
        code: tuple[str, ...] = self._pool.call(
            "compile_plainly", {**candidate.config, **controls}, shape, timeout_s=DESCRIBE_TIMEOUT_S
        )
        return code

    def stop_compiling(self) -> None:
        """End the compile processes; what was compiled stays, and the GPU process goes on."""
        self._pool.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        self.cache.trim()

    def _gpu_process(self, device: Device, log: Path) -> GpuProcess:
        """The GPU process, loading while the compile processes do."""
        gpu = GpuProcess(
            self.request.gpu_setup(self._compiled),
            log=log.with_name("gpu.log"),
            environment=gpu_environment(self.tools.ptxas, os.environ, Path(self._scratch.name), device.uuid),
        )
        # what goes wrong is met again, and told, by the first call that needs it
        threading.Thread(target=_quietly(gpu.start), name="gpu start", daemon=True).start()
        return gpu

    def _close(self) -> None:
        if self.gpu is not None:
            self.gpu.close()
        self._pool.close()
        kill_running()
        self._scratch.cleanup()

    def _require_one_a_shape(self) -> None:
        shapes = len(self.description.record.shapes)
        for option, given in (("--bytes", self.request.bytes_moved), ("--flops", self.request.flops)):
            if given and len(given) != shapes:
                raise InputError(
                    f"{len(given)} given for {shapes} shape(s)",
                    where=option,
                    next_step="give one for each shape, in their order, with commas between",
                )

    def _describe(self, log: Path) -> Description:
        """The workload as a worker sees it; InputError or MachineError where its kernel file keeps it from that."""
        file = self.request.file
        try:
            described: Description = self._pool.call("describe", timeout_s=DESCRIBE_TIMEOUT_S)
            return described
        except CallFailed as error:
            raise InputError(
                f"Helion cannot take this kernel: {error.kind}: {error}",
                where=file,
                next_step="compile it once with plain Helion to see the whole error",
            ) from error
        except WorkerTimeout as error:
            raise InputError(
                f"loading and binding the kernel took more than {DESCRIBE_TIMEOUT_S:g} s",
                where=file,
                next_step="keep work out of its import and its inputs function",
            ) from error
        except WorkerDied as error:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise InputError(
                f"the process that loaded the kernel crashed: {lines[-1].strip() if lines else 'without a word'}",
                where=file,
                next_step="import the file and call its inputs function in plain Python",
            ) from error


def _quietly(call: Callable[[], None]) -> Callable[[], None]:
    def quiet() -> None:
        with contextlib.suppress(UserError, CallFailed, WorkerDied, WorkerTimeout):
            call()

    return quiet


def stored_acfs(folder: Path, listed: Sequence[dict[str, Any]]) -> tuple[Acf, ...]:
    """The ACFs that a run recorded in run.json, from its own folder; InputError for one missing or altered."""
    store = AcfStore(folder, for_triton=False)
    acfs = [
        Acf(
            name=entry["name"],
            sha256=entry["sha256"],
            path=folder / f"{entry['sha256']}.acf",
            arch=tuple(entry["arch"]),
            toolkit=entry["toolkit"],
        )
        for entry in listed
    ]
    return tuple(store.add(acf) for acf in acfs)


def _own_acf(path: str, kernel_file: str) -> Acf:
    """The ACF that the kernel's own config names, kept in the store; NO_ACF for ""."""
    if not path:
        return NO_ACF
    found = Path(kernel_file).parent / path
    try:
        content = found.read_bytes()
    except OSError as error:
        raise InputError(
            f"the kernel's own config names an ACF that cannot be read: {error.strerror}",
            where=str(found),
            next_step="put it there, or take advanced_controls_file out of the config",
        ) from error
    kept = AcfStore(cache_root() / "acfs").add_content(content, name=found.name)
    return replace(kept, name=found.name)
