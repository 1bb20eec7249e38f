"""A workload record in JSON and back: arguments in the notation of `--args`, strides spelled out."""

from __future__ import annotations

from typing import Any

from helitune.search.workload import Argument, ScalarArg, Shape, TensorArg, WorkloadRecord


def workload_to_json(record: WorkloadRecord) -> dict[str, Any]:
    """The record in JSON's types."""
    return {
        "file": record.file,
        "kernel": record.kernel,
        "source_sha256": record.source_sha256,
        "reference": record.reference,
        "inputs": record.inputs,
        "seed": record.seed,
        "shapes": [shape_to_json(shape) for shape in record.shapes],
    }


def workload_from_json(fields: dict[str, Any]) -> WorkloadRecord:
    """The record that `workload_to_json` gave; raises KeyError or TypeError for what is none."""
    return WorkloadRecord(
        file=fields["file"],
        kernel=fields["kernel"],
        source_sha256=fields["source_sha256"],
        reference=fields["reference"],
        inputs=fields["inputs"],
        seed=fields["seed"],
        shapes=tuple(shape_from_json(shape) for shape in fields["shapes"]),
    )


def shape_to_json(shape: Shape) -> list[dict[str, Any]]:
    """One call's arguments, each {"dtype", "shape", "strides", "values"} or {"value"}."""
    return [_argument_to_json(argument) for argument in shape]


def shape_from_json(fields: list[dict[str, Any]]) -> Shape:
    """The arguments that `shape_to_json` gave."""
    return tuple(_argument_from_json(argument) for argument in fields)


def _argument_to_json(argument: Argument) -> dict[str, Any]:
    if isinstance(argument, ScalarArg):
        return {"value": argument.value}
    return {
        "dtype": argument.dtype,
        "shape": list(argument.shape),
        "strides": list(argument.strides),
        "values": argument.values,
    }


def _argument_from_json(fields: dict[str, Any]) -> Argument:
    if "dtype" not in fields:
        return ScalarArg(fields["value"])
    return TensorArg(
        dtype=fields["dtype"],
        shape=tuple(fields["shape"]),
        strides=tuple(fields["strides"]),
        values=fields["values"],
    )
