"""What ACFs do to a kernel in its own config, compiled as `tune` compiles it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.acf_effects import MEMORY_BYTES, TIMEOUT_S, Effect, EffectGroups, evaluated, group
from helitune.objectives.compiled_objectives import DEFAULT_OBJECTIVE
from helitune.objectives.outcomes import Compiled, Failed
from helitune.objectives.targets import find_target
from helitune.results.request import TuneRequest
from helitune.results.session import Session, Tools
from helitune.search.candidate import Candidate


def kernel_effects(
    kernel_file: str, args: tuple[str, ...], target: str, ptxas: Ptxas, acfs: Sequence[Acf]
) -> EffectGroups:
    """The effects of `acfs` on all launches of the kernel FILE[:KERNEL] in its own config, on all shapes.

    Raises InputError where the file, the arguments or the target are wrong, or it does not compile without an ACF.
    """
    tools = Tools(ptxas, find_target(target), tuple(acfs), ())
    with tempfile.TemporaryDirectory(prefix="helitune-diff-") as folder:
        request = _request(kernel_file, args, target)
        with Session(request, tools, Path(folder) / "workers.log") as session:
            config = session.description.baselines[0].config

            def effect(acf: Acf) -> Effect:
                outcome = session.evaluator.evaluate(Candidate.of(config, acf))
                if isinstance(outcome, Failed):
                    return Effect(acf, "", f"{outcome.stage}: {outcome.message}")
                compiled = outcome if isinstance(outcome, Compiled) else outcome.compiled
                return Effect(acf, "\n".join(compiled.code))

            plain = effect(NO_ACF)
            if not plain.code:
                raise InputError(
                    f"the kernel's own config does not compile: {plain.failure}",
                    where=kernel_file,
                    next_step="name another kernel, or give a PTX file with --ptx",
                )
            return group(plain.code, evaluated(effect, acfs))


def _request(kernel_file: str, args: tuple[str, ...], target: str) -> TuneRequest:
    name, colon, kernel = kernel_file.rpartition(":")
    if not colon or Path(kernel_file).exists():
        name, kernel = kernel_file, ""
    if not Path(name).is_file():
        raise InputError(
            "no such kernel file", where=name, next_step="name a Python file with a Helion kernel"
        )
    return TuneRequest(
        file=str(Path(name).absolute()),
        kernel=kernel or None,
        reference="self",  # nothing is run, so nothing is compared
        args=args,
        target=target,
        packs=(),
        force=False,
        settings=(),
        strategy="grid",
        objective=DEFAULT_OBJECTIVE,
        budget=0,
        time_s=None,
        seed=0,
        jobs=len(os.sched_getaffinity(0)),
        compile_timeout_s=TIMEOUT_S,
        memory_bytes=MEMORY_BYTES,
        ptxas=None,
    )
