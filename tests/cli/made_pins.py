"""Pins made to order, good ones and bad ones, on whatever machine this runs: `python made_pins.py FOLDER`.

`helitune pin` would refuse to write most of them.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.content import digest
from helitune.acfs.ptxas import Ptxas, find_ptxas, toolkit
from helitune.objectives.check_result import CheckResult
from helitune.objectives.device import find_device
from helitune.objectives.outcomes import Compiled
from helitune.objectives.targets import Target, find_target
from helitune.results.drift import launches_of
from helitune.results.fingerprint import fingerprint
from helitune.results.pin import Pin, PinnedAcf
from helitune.results.pin_forms import Place, StagedPin
from helitune.results.request import TuneRequest
from helitune.results.session import Session, Tools
from helitune.search.candidate import Candidate

ROOT = Path(__file__).parents[2]
PACK = ROOT / "acfs" / "data" / "h200-seed"


@dataclass(frozen=True)
class Order:
    """A pin to be made: which example, how its config differs from the own one, and with which ACF of the pack."""

    example: str
    acf: str = ""
    config: dict[str, Any] = field(default_factory=dict)


ORDERS = {
    # 0.777 of the own config's time on an H200, by the pack's notes
    "good": Order("softmax", "ef4c07cdca0acf92", {"block_sizes": [1], "num_warps": 4}),
    # four rows of 2560 numbers in one warp's registers: most of them spill
    "slow": Order("softmax", "", {"block_sizes": [4], "num_warps": 1}),
    # wrong on rms_norm in every config tried, by the pack's notes
    "wrong": Order("rms_norm", "c8fb5ecd28cffb68"),
}


def make(name: str, root: Path) -> Path:
    """The file of the pin called `name`, below `root`/`name`."""
    order, ptxas = ORDERS[name], find_ptxas(None)
    device = find_device()
    target = device.target() if device else find_target("sm_90")
    acf = _acf(order)
    with tempfile.TemporaryDirectory() as folder:
        request = _request(order, ptxas, target)
        tools = Tools(ptxas, target, (acf,) if acf.sha256 else (), ())
        with Session(request, tools, Path(folder) / "log", compiled=Path(folder) / "compiled") as session:
            own = session.baselines[0].candidate
            config = {**own.config, **order.config}
            made, base = (session.compiled.evaluate(c) for c in (Candidate.of(config, acf), own))
            assert isinstance(made, Compiled) and isinstance(base, Compiled), (made, base)
            record = session.description.record
    pin = Pin(
        kernel=record.kernel,
        file=Path(record.file).name,
        source_sha256=record.source_sha256,
        gpu=target.arch,
        reference=record.reference,
        inputs=record.inputs,
        shapes=record.shapes,
        config=config,
        acf=PinnedAcf(acf.sha256, acf.name, toolkit(ptxas.version), ptxas.version) if acf.sha256 else None,
        evidence="compiled",
        objective={
            "name": "issue_slots",
            "unit": "cycles",
            "lower_is_better": True,
            "pin": {"score": made.score, "values": list(made.values)},
            "own": {"score": base.score, "values": list(base.values), "artifacts": launches_of(base)},
        },
        artifacts=launches_of(made),
        check=CheckResult(True, record.reference, (), (), "made to order").to_json(),
        fingerprint=fingerprint(ptxas, target.arch),
        run={"id": "made", "created": "", "trial": "", "number": 0, "origin": "made", "chosen": "--trial"},
        notes=(f"made to be {name}",),
    )
    staged = StagedPin(Place.of(pin, root / name), pin)
    staged.write(acf.path.read_bytes() if acf.path else None, "", lambda config, path: path.touch())
    staged.commit()
    return staged.place.json


def _acf(order: Order) -> Acf:
    if not order.acf:
        return NO_ACF
    path = PACK / f"{order.acf}.acf"
    return Acf(order.acf, digest(path.read_bytes()), path, ("sm_90",))


def _request(order: Order, ptxas: Ptxas, target: Target) -> TuneRequest:
    return TuneRequest(
        file=str(ROOT / "examples" / f"{order.example}.py"),
        kernel=None,
        reference=None,
        args=(),
        target=target.arch,
        packs=(),
        force=False,
        settings=(),
        strategy="grid",
        objective="issue_slots",
        budget=0,
        time_s=None,
        seed=0,
        jobs=1,
        compile_timeout_s=300.0,
        memory_bytes=16 << 30,
        ptxas=str(ptxas.path),
    )


if __name__ == "__main__":
    for each in ORDERS:
        print(make(each, Path(sys.argv[1]).absolute()))
