"""How often each loop of a generated Triton kernel runs, derived from its source, arguments and grid.

The integer part of the kernel (block sizes, program ids, tile offsets, bounds) is evaluated for many programs
at once, each value an array over the sampled programs; everything else (tensors, loads) is unknown and stays
so. A loop whose bounds are unknown has no trip count: it is never guessed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from helitune.objectives.source_values import UNKNOWN, Evaluator, Value, constant, known

SAMPLED_PROGRAMS = 4096
"""Programs the trips are averaged over: all of a grid up to this size, else evenly spaced ones."""

_LOOPS = ("tl.range", "tl.static_range", "range")


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of the kernel source.

    `line` and `end_line` are those of the source text, from 1. `trips` is the mean number of iterations for
    one iteration of the loop around it (or one program), so that the trips of nested loops multiply; None
    where they depend on what is loaded. `peak` is the largest in any program. `unroll` is the declared factor
    (1: none), `flatten` whether it is to be merged with its inner loop, `static` whether Triton unrolls it
    wholly, `uniform` whether the compiler knows the trips. `parent` is the index of the loop around it.
    """

    line: int
    end_line: int
    trips: float | None
    peak: float | None
    unroll: int
    flatten: bool
    static: bool
    uniform: bool
    parent: int | None


def trip_counts(source: str, kernel: str, scalars: Mapping[str, int], grid: tuple[int, ...]) -> list[Loop]:
    """All loops of the jit function `kernel` in the order of the text.

    `scalars` are its integer arguments by parameter name, `grid` the blocks launched per axis. Raises
    ValueError if the source has no such function.
    """
    module = ast.parse(source)
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == kernel]
    if not functions:
        raise ValueError(f"the generated source has no function {kernel!r}")
    walk = _Walk(Evaluator(*_sampled(grid)), _sample_count(grid))
    for node in module.body:
        if isinstance(node, ast.Assign):
            walk.statement(node)
    walk.bind(functions[0].args, scalars)
    walk.block(functions[0].body)
    return walk.loops


def _sample_count(grid: tuple[int, ...]) -> int:
    return max(1, min(math.prod(grid), SAMPLED_PROGRAMS))


def _sampled(grid: tuple[int, ...]) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """The program ids per axis, x fastest, and the grid; axes that were not given have one program."""
    axes = (*grid, 1, 1, 1)[:3]
    count = _sample_count(grid)
    rest = np.arange(count, dtype=np.int64) * math.prod(grid) // count
    ids: list[Value] = []
    for blocks in axes:
        ids.append(rest % blocks)
        rest = rest // blocks
    return tuple(ids), axes


class _Walk:
    """One pass over the statements; `reached` is how often each program arrives where the walk stands."""

    def __init__(self, evaluator: Evaluator, programs: int) -> None:
        self.loops: list[Loop] = []
        self._evaluator = evaluator
        self._names = evaluator.names
        self._reached = np.ones(programs)
        self._started = self._reached  # the same at the beginning of the loop body around
        self._parent: int | None = None

    def bind(self, arguments: ast.arguments, scalars: Mapping[str, int]) -> None:
        """Takes the kernel's arguments: constants of the compiler where annotated so, else known to us."""
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            value = scalars.get(argument.arg)
            is_constant = argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
            if isinstance(value, int):
                self._names[argument.arg] = int(value) if is_constant else np.full(1, value, dtype=np.int64)
            else:
                self._names[argument.arg] = UNKNOWN

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            self._branch(node)
        elif isinstance(node, ast.For):
            self._for(node)
        elif isinstance(node, ast.While):
            self._record(node, None, {}, static=False, uniform=False)
            self._body(node, self._reached, UNKNOWN)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = self._evaluator.value(node.value)
            for target in targets:
                self._assign(target, value)
        else:
            self._forget(_assigned([node]))

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        else:
            self._forget(_assigned([ast.Assign(targets=[target], value=ast.Constant(0))]))

    def _forget(self, names: set[str]) -> None:
        for name in names:
            self._names[name] = UNKNOWN

    def _branch(self, node: ast.If) -> None:
        condition = self._evaluator.value(node.test)
        if not known(condition):
            self.block(node.body)
            self.block(node.orelse)
            self._forget(_assigned([node]))
            return
        taken = np.broadcast_to(np.asarray(condition, dtype=bool), self._reached.shape)
        before, reached = dict(self._names), self._reached
        self._reached = reached * taken
        self.block(node.body)
        then = dict(self._names)
        self._restore(before)
        self._reached = reached * ~taken
        self.block(node.orelse)
        self._reached = reached
        self._merge(_assigned([node]), taken, then, constant(condition))

    def _merge(self, names: set[str], taken: np.ndarray, then: dict[str, Value], is_constant: bool) -> None:
        for name in names:
            yes, no = then.get(name, UNKNOWN), self._names.get(name, UNKNOWN)
            if is_constant:
                self._names[name] = yes if taken.all() else no
            elif known(yes) and known(no):
                self._names[name] = np.where(taken, np.asarray(yes), np.asarray(no))
            else:
                self._names[name] = UNKNOWN

    def _restore(self, names: dict[str, Value]) -> None:
        self._names.clear()
        self._names.update(names)

    def _for(self, node: ast.For) -> None:
        call = node.iter
        called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or called not in _LOOPS:
            self._record(node, None, {}, static=False, uniform=False)
            self._body(node, self._reached, UNKNOWN)
            return
        options = {
            keyword.arg: self._evaluator.value(keyword.value) for keyword in call.keywords if keyword.arg
        }
        start, stop, step = self._bounds(call.args)
        trips, middle = _trips(start, stop, step)
        uniform = all(constant(bound) for bound in (start, stop, step))
        self._record(node, trips, options, static=called == "tl.static_range", uniform=uniform)
        self._body(node, self._reached if trips is None else self._reached * trips, middle)

    def _bounds(self, arguments: list[ast.expr]) -> tuple[Value, Value, Value]:
        values = [self._evaluator.value(argument) for argument in arguments[:3]]
        if len(values) == 1:
            return 0, values[0], 1
        if len(values) == 2:
            return values[0], values[1], 1
        return (values[0], values[1], values[2]) if values else (UNKNOWN, UNKNOWN, UNKNOWN)

    def _body(self, node: ast.For | ast.While, reached: np.ndarray, middle: Value) -> None:
        """Walks the body once, as its middle iteration; what it carries between iterations is unknown."""
        index = len(self.loops) - 1
        carried = _assigned(node.body) & self._names.keys()
        before = self._parent, self._reached, self._started
        self._parent, self._reached, self._started = index, reached, reached
        self._forget(carried)
        if isinstance(node, ast.For):
            self._assign(node.target, middle)
        self.block(node.body)
        self._parent, self._reached, self._started = before
        self._forget(carried | (_assigned([node]) - _assigned(node.body)))

    def _record(
        self,
        node: ast.For | ast.While,
        trips: np.ndarray | None,
        options: dict[str, Value],
        *,
        static: bool,
        uniform: bool,
    ) -> None:
        unroll = options.get("loop_unroll_factor")
        self.loops.append(
            Loop(
                line=node.lineno,
                end_line=node.end_lineno or node.lineno,
                trips=None if trips is None else _mean(trips * self._reached, self._started),
                peak=None if trips is None else float((trips * (self._reached > 0)).max()),
                unroll=max(1, unroll) if isinstance(unroll, int) else 1,
                flatten=options.get("flatten") is True,
                static=static,
                uniform=uniform,
                parent=self._parent,
            )
        )


def _trips(start: Value, stop: Value, step: Value) -> tuple[np.ndarray | None, Value]:
    """(iterations per program, the loop variable in the middle one); None, UNKNOWN if a bound is."""
    if not (known(start) and known(stop) and known(step)) or np.any(np.asarray(step) == 0):
        return None, UNKNOWN
    first, last, stride = (np.asarray(bound, dtype=np.int64) for bound in (start, stop, step))
    trips = np.atleast_1d(np.maximum(0, -((first - last) // stride)))
    return trips, first + stride * (np.maximum(trips - 1, 0) // 2)


def _mean(iterations: np.ndarray, arrivals: np.ndarray) -> float:
    """Iterations over arrivals, both summed over the programs."""
    arrived = float(arrivals.sum())
    return float(iterations.sum()) / arrived if arrived else 0.0


def _assigned(nodes: list[ast.stmt]) -> set[str]:
    return set(_stored(nodes))


def _stored(nodes: list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id
