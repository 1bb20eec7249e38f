"""What `show --explain` prints: one trial, with what the model made of it."""

from __future__ import annotations

import textwrap
from typing import Any

from helitune.objectives.artifact import Artifact
from helitune.objectives.issue_slots import IssueSlots, issue_slots
from helitune.objectives.outcomes import Failed, Measured
from helitune.objectives.targets import Target, find_target
from helitune.results.trial import Trial

from .measured_report import EVIDENCE as MEASURED
from .tune_report import EVIDENCE, shown_config, shown_number, shown_value


def print_trial(trial: Trial, run: dict[str, Any]) -> None:
    """Print one trial of a run: its config and ACF, and for each shape what decided its score."""
    print(f"trial {trial.number} ({trial.id}), {trial.origin}, {trial.elapsed_s:.2f} s")
    print(textwrap.fill(shown_config(trial.config), 100, initial_indent="  ", subsequent_indent="  "))
    print(f"  ACF {trial.acf_name} ({trial.acf_sha256})" if trial.acf_sha256 else "  no ACF")
    if isinstance(trial.outcome, Failed):
        print(f"  failed at {trial.outcome.stage}: {trial.outcome.message}")
        return
    print(f"  {run['request']['objective']}: {shown_value(trial, run['request']['objective'])}")
    if isinstance(trial.outcome, Measured):
        _print_times(trial.outcome)
    target = find_target(run["fingerprint"]["arch"])
    compiled = trial.compiled
    assert compiled is not None
    for number, launches in enumerate(compiled.artifacts, start=1):
        print(f"shape {number}:")
        for launch in launches:
            _print_launch(launch, issue_slots([launch], target, 0), target)
    print(EVIDENCE if trial.measured is None else MEASURED)


def _print_times(measured: Measured) -> None:
    for number, shape in enumerate(measured.shapes, start=1):
        clock = f", SM clock {shape.sm_clock_mhz:.0f} MHz" if shape.sm_clock_mhz else ""
        warm = f", {shape.temperature_c:.0f} °C" if shape.temperature_c else ""
        slow = ", too slow to be timed further" if shape.coarse else ""
        print(
            f"  shape {number}: {1e3 * shape.ms:.4g} us beside {1e3 * shape.base_ms:.4g} us, ratios "
            f"{' '.join(f'{ratio:.4f}' for ratio in shape.ratios)}{clock}{warm}{slow}"
        )


def _print_launch(launch: Artifact, model: IssueSlots, target: Target) -> None:
    grid = "×".join(map(str, launch.grid))
    warps = model.resident_blocks * launch.num_warps
    print(f"  {grid} blocks of {launch.num_warps} warps, code {launch.code_sha256[:16]}")
    print(
        f"    {launch.registers} registers a thread, {launch.spill_bytes} bytes spilled, "
        f"{launch.shared_bytes} bytes of shared memory a block"
    )
    print(
        f"    {model.resident_blocks} blocks ({warps} of {target.max_warps_per_sm} warps) fit on one SM, "
        f"{model.waves} wave(s) on {target.sms} SMs"
    )
    print(
        f"    {launch.instructions} instructions of code, {shown_number(launch.executed)} executed by a warp in the "
        f"mean: {shown_number(model.issue_cycles)} cycles to issue, "
        f"{shown_number(model.memory_cycles)} for spills"
    )
    if launch.underived:
        print(f"    loops at line(s) {list(launch.underived)} depend on data: counted as one iteration")
