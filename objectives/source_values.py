"""The value of an integer expression in a generated Triton kernel, for many programs at once, or UNKNOWN.

A Python int or bool is what the compiler knows too; an array (one entry, or one a program) is known only at
run time; UNKNOWN is everything else. Nothing is executed: the expression's syntax tree is read.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np


class Unknown:
    """A value that cannot be derived from the source."""


UNKNOWN: Final = Unknown()
Value = int | bool | np.ndarray | Unknown

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
# Helion and Inductor spell the same arithmetic in several ways
_PASSED_ON = ("tl.constexpr", "tl.cast", "tl.multiple_of", "tl.max_contiguous", "int", "tl.to_tensor")
_CALLS: dict[str, Callable[..., Any]] = {
    "tl.cdiv": lambda a, b: -(-a // b),
    "triton.cdiv": lambda a, b: -(-a // b),
    "tl.where": lambda condition, a, b: _choose(condition, a, b),
    "triton_helpers.div_floor_integer": operator.floordiv,
    "triton_helpers.remainder_integer": operator.mod,
}
_SMALLEST = ("min", "tl.minimum", "triton_helpers.minimum")
_LARGEST = ("max", "tl.maximum", "triton_helpers.maximum")


def known(value: Value) -> bool:
    """Whether the value could be derived."""
    return not isinstance(value, Unknown)


def constant(value: Value) -> bool:
    """Whether the compiler knows the value as well."""
    return isinstance(value, int)


class Evaluator:
    """Values of expressions, given `names` and the sampled program ids and grid size per axis."""

    def __init__(self, program_ids: tuple[Value, ...], grid: tuple[int, ...]) -> None:
        self.names: dict[str, Value] = {}
        self._program_ids = program_ids
        self._grid = grid

    def value(self, node: ast.expr) -> Value:
        """The value of `node`, UNKNOWN where any part of it is, and where its arithmetic fails."""
        try:
            result = self._value(node)
        except (ArithmeticError, TypeError, ValueError):
            return UNKNOWN
        if isinstance(result, np.ndarray):
            return result if result.dtype.kind in "bi" else UNKNOWN
        return result if isinstance(result, int) else UNKNOWN

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int()):
                return node.value
            case ast.Name():
                return self.names.get(node.id, UNKNOWN)
            case ast.BinOp():
                return self._applied(_BINARY.get(type(node.op)), [node.left, node.right])
            case ast.UnaryOp(op=ast.USub()):
                return self._applied(operator.neg, [node.operand])
            case ast.Compare(ops=[comparison], comparators=[right]):
                return self._applied(_COMPARE.get(type(comparison)), [node.left, right])
            case ast.BoolOp():
                return self._applied(_both if isinstance(node.op, ast.And) else _either, node.values)
            case ast.IfExp():
                return self._applied(_choose, [node.test, node.body, node.orelse])
            case ast.Call():
                return self._call(node)
        return UNKNOWN

    def _applied(self, function: Callable[..., Any] | None, nodes: list[ast.expr]) -> Any:
        values = [self.value(node) for node in nodes]
        if function is None or not all(known(value) for value in values):
            return UNKNOWN
        with np.errstate(divide="raise"):
            return function(*values)

    def _call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name in ("tl.program_id", "tl.num_programs"):
            return self._axis(name, node)
        if name in _PASSED_ON and node.args:
            return self.value(node.args[0])
        if name == "tl.full" and len(node.args) >= 2 and ast.unparse(node.args[0]) == "[]":
            return self.value(node.args[1])
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return self.value(node.func.value)
        if name in _SMALLEST:
            return self._applied(_smallest, node.args)
        if name in _LARGEST:
            return self._applied(_largest, node.args)
        return self._applied(_CALLS.get(name), node.args)

    def _axis(self, name: str, node: ast.Call) -> Any:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        axis = self.value(arguments[0]) if arguments else UNKNOWN
        if not isinstance(axis, int) or not 0 <= axis < len(self._grid):
            return UNKNOWN
        # how many programs there are is a launch parameter: known here, not to the compiler
        return (
            self._program_ids[axis]
            if name == "tl.program_id"
            else np.full(1, self._grid[axis], dtype=np.int64)
        )


def _smallest(*values: Any) -> Any:
    return _folded(np.minimum, min, values)


def _largest(*values: Any) -> Any:
    return _folded(np.maximum, max, values)


def _folded(arrays: Any, scalars: Callable[..., int], values: tuple[Any, ...]) -> Any:
    if all(isinstance(value, int) for value in values):
        return scalars(values)
    result = values[0]
    for value in values[1:]:
        result = arrays(result, value)
    return result


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, int):
        return yes if condition else no
    return np.where(condition, yes, no)


def _both(*values: Any) -> Any:
    return values[0] if len(values) == 1 else np.logical_and(values[0], _both(*values[1:]))


def _either(*values: Any) -> Any:
    return values[0] if len(values) == 1 else np.logical_or(values[0], _either(*values[1:]))
