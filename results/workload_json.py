"""A workload record in JSON and back: arguments in the notation of `--args`, strides spelled out."""

from __future__ import annotations

from typing import Any

from helitune.objectives.json_fields import integer, integers, items, sha256, text
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


def workload_from_json(fields: Any) -> WorkloadRecord:
    """The record that `workload_to_json` gave; ValueError with what is missing or of another type."""
    return WorkloadRecord(
        file=text(fields, "file"),
        kernel=text(fields, "kernel"),
        source_sha256=sha256(fields, "source_sha256"),
        reference=text(fields, "reference"),
        inputs=text(fields, "inputs"),
        seed=integer(fields, "seed"),
        shapes=tuple(shape_from_json(shape) for shape in items(fields, "shapes")),
    )


def shape_to_json(shape: Shape) -> list[dict[str, Any]]:
    """One call's arguments, each {"dtype", "shape", "strides", "values"} or {"value"}."""
    return [_argument_to_json(argument) for argument in shape]


def shape_from_json(fields: Any) -> Shape:
    """The arguments that `shape_to_json` gave; ValueError with what is missing or of another type."""
    if not isinstance(fields, list):
        raise ValueError("shapes: an entry is no list of arguments")
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


def _argument_from_json(fields: Any) -> Argument:
    if isinstance(fields, dict) and "dtype" not in fields:
        if "value" not in fields or isinstance(fields["value"], list | dict):
            raise ValueError("shapes: an argument has neither a dtype nor a scalar value")
        return ScalarArg(fields["value"])
    argument = TensorArg(
        dtype=text(fields, "dtype"),
        shape=integers(fields, "shape"),
        strides=integers(fields, "strides"),
        values=text(fields, "values"),
    )
    if len(argument.shape) != len(argument.strides):
        raise ValueError("strides: not one for each size of shape")
    return argument
