"""run.json: what a run was asked, on what, in which environment, and how far it came.

Format 1 (first version):

    format        1
    created       when, as 2026-12-01T10:15:00+0000
    request       the settings of `tune`: results/request.py
    workload      the kernel and its calls: results/workload_json.py
    evidence      "compiled": no run time was taken; "measured": on `device`
    fingerprint   {arch, ptxas {version, sha256}, packages, python, platform}; gpu {name, driver} where measured
    acfs          {name, sha256, arch, toolkit} of each ACF of the space; the bytes lie in acfs/. Those that were
                  bred follow in the order of proposal, with `generation` and `size_bytes`: results/bred_acfs.py
    warm          sha256 of the ACFs that were tried first
    status        "running", "interrupted", "stopped: WHY" or "done: WHY"

and, where the run came that far, `space`, `own_acfs`, `check` (the verdict on the kernel's source) and `age_s`;
where it measured, `device`, `own` (its times), `limits` of the GPU, `gpu_process` (how busy it was) and `finals`;
where it was validated, `verdicts` and `validation` (results/finding_record.py), of the last validation.
A reader takes every format up to its own and refuses newer ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.objectives.device import Device
from helitune.objectives.json_fields import integer, items, mapping, sha256, text, texts

from .finals import Final
from .request import TuneRequest
from .workload_json import workload_from_json

RUN_FORMAT = 1

_NEXT_STEP = "restore the file, or start a new run"


def run_text(fields: dict[str, Any]) -> bytes:
    """The content of run.json for these fields."""
    return json.dumps({"format": RUN_FORMAT, **fields}, indent=1).encode() + b"\n"


def read_run(path: Path) -> dict[str, Any]:
    """The fields of the run.json at `path`, all that a reader relies on there and of its type.

    Raises InputError for a file that is missing, unreadable, broken or of a newer format.
    """
    fields = _read_json(path)
    try:
        _require_known(integer(fields, "format"), path)
        _require_fields(fields)
    except ValueError as error:
        raise InputError(
            f"run.json cannot be read: {error}", where=str(path), next_step=_NEXT_STEP
        ) from error
    TuneRequest.from_json(fields["request"], where=str(path))
    return fields


def finals_of(fields: dict[str, Any], where: str) -> list[Final]:
    """The finalists in these fields of run.json; InputError, naming `where`, for what is no such record."""
    try:
        return [Final.from_json(entry) for entry in items(fields, "finals")] if "finals" in fields else []
    except ValueError as error:
        raise InputError(
            f"run.json cannot be read: finals: {error}", where=where, next_step=_NEXT_STEP
        ) from error


def require_measured(fields: dict[str, Any], where: str) -> None:
    """None where these fields of run.json are of a run that measured; InputError for one that only compiled."""
    if fields["evidence"] != "measured":
        raise InputError(
            "the run was only compiled: there is no time to validate",
            where=where,
            next_step="tune on a machine with a GPU, then validate there",
        )


def device_of(fields: dict[str, Any], where: str) -> Device | None:
    """The GPU in these fields of run.json, None where nothing was measured; InputError for what is no such record."""
    try:
        return Device.from_json(fields["device"]) if fields.get("device") is not None else None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"run.json cannot be read: device: {error}", where=where, next_step=_NEXT_STEP
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            "no run here", where=str(path.parent), next_step="name a run folder or id"
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot read run.json: {error.strerror or error}", where=str(path), next_step=_NEXT_STEP
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"run.json is not JSON: {error}", where=str(path), next_step=_NEXT_STEP) from error
    if not isinstance(fields, dict):
        raise InputError("run.json holds no run", where=str(path), next_step=_NEXT_STEP)
    return fields


def _require_known(version: int, path: Path) -> None:
    if version > RUN_FORMAT:
        raise InputError(
            f"the run has format {version}, this helitune reads up to {RUN_FORMAT}",
            where=str(path),
            next_step="upgrade helitune",
        )


def _require_fields(fields: dict[str, Any]) -> None:
    """Raise ValueError for a field that is missing or of another type; the request is read by itself."""
    for name in ("created", "evidence", "status"):
        text(fields, name)
    mapping(fields, "request")
    workload_from_json(mapping(fields, "workload"))
    environment = mapping(fields, "fingerprint")
    text(environment, "arch")
    mapping(environment, "packages")
    for name in ("version", "sha256"):
        text(mapping(environment, "ptxas"), name)
    for acf in items(fields, "acfs"):
        text(acf, "name")
        sha256(acf, "sha256")
        texts(acf, "arch")
        text(acf, "toolkit")
    if "own_acfs" in fields:
        texts(fields, "own_acfs")
