"""A pin: one config with its ACF for one kernel, GPU and workload, and the evidence for it.

The file `<shapes>.json`, format 2 (1: first version, whose evidence is always "compiled"):

    format        2
    identity      sha256 of what decides the code: see `Pin.identity`
    kernel        {name, file, source_sha256}: the file's own name, without folders
    gpu           "sm_90": the architecture that the code was compiled for
    workload      {reference, inputs, shapes}: shapes as in run.json (dtype, shape, strides of each argument)
    config        the Helion config, without advanced_controls_file
    acf           {file, sha256, name, toolkit, ptxas}, or null; `file` lies beside the pin
    evidence      "compiled": no run time was taken; or {kind: "measured", status: "FASTER", …}: the verdict of a
                  gate, Verdict.to_record(), with `verdicts`, one such record a shape, and `validated`, how
    objective     {name, unit, lower_is_better, pin, own}: {score, values} of the pin and of the kernel's own
                  config (null where that does not compile); one value a shape, in `unit`
    artifacts     for each shape, for each launch: {code_sha256, ptx_sha256, grid, num_warps, registers,
                  spill_bytes, shared_bytes}
    check         the verdict on the kernel's source against its reference
    fingerprint   the environment in which the pin was compiled and verified
    run           {id, created, trial, number, origin, chosen}
    notes         sentences about how this pin came to be

A reader takes every format up to its own and refuses newer ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.content import MAX_ACF_BYTES, SUFFIX, digest, read_at_most
from helitune.acfs.errors import InputError
from helitune.search.candidate import canonical
from helitune.search.workload import Shape

from .pin_fields import architecture, config, evidence, file_name, fingerprint, identifier, of, plain
from .workload_json import shape_from_json, shape_to_json

PIN_FORMAT = 2

MAX_PIN_BYTES = 4 << 20
"""Of a pin's JSON file; real ones have a few KiB."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PinnedAcf:
    """The ACF of a pin: content hash, the pack's name for it, and the CUDA toolkit and ptxas it goes with."""

    sha256: str
    name: str
    toolkit: str
    ptxas: str

    @property
    def file(self) -> str:
        """The file's name, beside the pin."""
        return f"{self.sha256}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Pin:
    """One pin; the fields are those of the file. `artifacts` keeps the file's own records.

    `evidence` is "compiled" or the status of a verdict, and `verdict` the record of it where there is one.
    """

    kernel: str
    file: str
    source_sha256: str
    gpu: str
    reference: str
    inputs: str
    shapes: tuple[Shape, ...]
    config: dict[str, Any]
    acf: PinnedAcf | None
    evidence: str
    objective: dict[str, Any]
    artifacts: list[list[dict[str, Any]]]
    check: dict[str, Any]
    fingerprint: dict[str, Any]
    run: dict[str, Any]
    notes: tuple[str, ...]
    verdict: dict[str, Any] | None = None

    @property
    def code(self) -> tuple[tuple[str, ...], ...]:
        """CODE_SHA256:GRID of each launch of each shape."""
        return tuple(
            tuple(f"{launch['code_sha256']}:{'x'.join(map(str, launch['grid']))}" for launch in shape)
            for shape in self.artifacts
        )

    def identity(self) -> str:
        """sha256 over config, ACF, workload and code: equal for pins that run the same code on the same calls."""
        decisive = {
            "config": self.config,
            "acf": self.acf.sha256 if self.acf else "",
            "kernel": [self.kernel, self.source_sha256],
            "gpu": self.gpu,
            "reference": self.reference,
            "shapes": [shape_to_json(shape) for shape in self.shapes],
            "code": self.code,
        }
        return hashlib.sha256(canonical(decisive).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """This pin in JSON's types, as the file holds it."""
        acf = self.acf
        return {
            "format": PIN_FORMAT,
            "identity": self.identity(),
            "kernel": {"name": self.kernel, "file": self.file, "source_sha256": self.source_sha256},
            "gpu": self.gpu,
            "workload": {
                "reference": self.reference,
                "inputs": self.inputs,
                "shapes": [shape_to_json(shape) for shape in self.shapes],
            },
            "config": self.config,
            "acf": acf
            and {
                "file": acf.file,
                "sha256": acf.sha256,
                "name": acf.name,
                "toolkit": acf.toolkit,
                "ptxas": acf.ptxas,
            },
            "evidence": self.evidence if self.verdict is None else self.verdict,
            "objective": self.objective,
            "artifacts": self.artifacts,
            "check": self.check,
            "fingerprint": self.fingerprint,
            "run": self.run,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Pin:
        """The pin that `to_json` gave; KeyError, TypeError or ValueError for anything else."""
        kernel, workload = fields["kernel"], fields["workload"]
        status, verdict = evidence(fields["evidence"])
        return cls(
            kernel=identifier(kernel["name"]),
            file=file_name(kernel["file"]),
            source_sha256=of(str, kernel["source_sha256"]),
            gpu=architecture(fields["gpu"]),
            reference=of(str, workload["reference"]),
            inputs=of(str, workload["inputs"]),
            shapes=tuple(shape_from_json(shape) for shape in workload["shapes"]),
            config=config(fields["config"]),
            acf=_acf(fields["acf"]),
            evidence=status,
            objective=of(dict, fields["objective"]),
            artifacts=of(list, fields["artifacts"]),
            check=of(dict, fields["check"]),
            fingerprint=fingerprint(fields["fingerprint"]),
            run=of(dict, fields["run"]),
            notes=tuple(of(str, note) for note in of(list, fields["notes"])),
            verdict=verdict,
        )


def pin_text(pin: Pin) -> str:
    """The content of the pin's JSON file."""
    return json.dumps(pin.to_json(), indent=1) + "\n"


def read_pin(path: Path) -> Pin:
    """The pin in the file `path`, its ACF found beside it and unaltered.

    Raises InputError for a file that is missing, broken, of a newer format or edited by hand, and for an ACF
    that is missing or altered.
    """
    fields = _read_json(path)
    version = fields.get("format")
    if type(version) is not int or version < 1:
        next_step = "name the .json file that helitune pin wrote, not the .helion.json beside it"
        raise InputError("not a pin: it has no format number", where=str(path), next_step=next_step)
    if version > PIN_FORMAT:
        raise InputError(
            f"the pin has format {version}, from the future: this helitune reads up to {PIN_FORMAT}",
            where=str(path),
            next_step="upgrade helitune",
        )
    try:
        pin = Pin.from_json(fields)
        unchanged = fields["identity"] == pin.identity()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"the pin is broken: {type(error).__name__} {error}"
        raise InputError(what, where=str(path), next_step="write it again with helitune pin") from error
    if not unchanged:
        raise InputError(
            "the pin was changed by hand: its identity is not that of its content",
            where=str(path),
            next_step="write it again with helitune pin",
        )
    if pin.acf is not None:
        _require_acf(path.with_name(pin.acf.file), pin.acf)
    return pin


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = _content(path, MAX_PIN_BYTES)
        fields = plain(json.loads(content)) if content is not None else None
    except OSError as error:
        what = f"cannot read the pin: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step="name a .json file of helitune pin") from error
    except (ValueError, RecursionError) as error:
        what = f"the pin is not JSON: {error}"
        raise InputError(what, where=str(path), next_step="write it again with helitune pin") from error
    if not isinstance(fields, dict):
        raise InputError("not a pin", where=str(path), next_step="name a .json file of helitune pin")
    return fields


def _content(path: Path, limit_bytes: int) -> bytes | None:
    """The file's content, None where it is longer. Raises OSError, also for what is no file: a pipe would wait."""
    if path.exists() and not path.is_file():
        raise OSError("not a regular file")
    return read_at_most(path, limit_bytes)


def _require_acf(path: Path, acf: PinnedAcf) -> None:
    next_step = "put the file back, or write the pin again with helitune pin"
    try:
        content = _content(path, MAX_ACF_BYTES)
    except OSError as error:
        what = f"the pin's ACF {acf.name} cannot be read: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step=next_step) from error
    if content is None or digest(content) != acf.sha256:
        raise InputError(f"the pin's ACF {acf.name} was altered", where=str(path), next_step=next_step)


def _acf(fields: Any) -> PinnedAcf | None:
    if fields is None:
        return None
    acf = PinnedAcf(
        sha256=of(str, fields["sha256"]),
        name=of(str, fields["name"]),
        toolkit=of(str, fields["toolkit"]),
        ptxas=of(str, fields["ptxas"]),
    )
    # the name is opened beside the pin: nothing but a hash may stand there
    if not _SHA256.fullmatch(acf.sha256) or fields["file"] != acf.file:
        raise ValueError("acf.file is not SHA256.acf")
    return acf
