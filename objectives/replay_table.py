"""Recorded tables: every point of a narrowed joint space with what a GPU made of it, so that strategies run anywhere.

A table is a gzipped file of JSON lines, NAME.jsonl.gz. Format 1 (first version): a header

    format      1
    kernel      its name
    shapes      the arguments of each call, as run.json has them
    gpu         the GPU's name
    versions    what else the times depend on, as run.json's fingerprint
    date        when it was recorded, as 2026-12-01
    dimensions  {key, index, slots, values} of each axis, as search/space.py has them
    acfs        {name, sha256, arch, toolkit} of each ACF; "no ACF" comes first in every space and is not listed
    baselines   {name, genome}

and one line a point, with its `genome` (one index a dimension, the ACF's last; 0 is none) and one of

    outcome "measured", config, acf_sha256 ("" for none), ratios, base_ms, features, code (where known)
    outcome "failed", stage, message
    same_as     the genome of the point whose normalised config, and ACF, it has

`ratios` are the point's time over the own config's, one a round: three or more, but one for the own config itself
and for what was far too slow to be timed again. Points of one `code` ran the same machine code. A table holds all
points of its space. A reader takes every format up to its own, and passes over keys that it does not know.
"""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError
from helitune.search.candidate import canonical
from helitune.search.space import Genome

from .json_fields import integer
from .outcomes import Failed
from .replay_records import FailedPoint, MeasuredPoint, Point, SamePoint, TableHeader

TABLE_FORMAT = 1
SUFFIX = ".jsonl.gz"
SHOWN_MISSING = 3


class ReplayTable:
    """A complete table: the joint space it covers, and the point of every genome."""

    def __init__(self, header: TableHeader, points: dict[Genome, Point]) -> None:
        self.header = header
        self.space = header.space
        self._points = points
        self._configs = {g[:-1]: p.config for g, p in points.items() if isinstance(p, MeasuredPoint)}

    @property
    def genomes(self) -> Iterable[Genome]:
        """All genomes of the space, in the order of the file."""
        return self._points.keys()

    def point(self, genome: Genome) -> MeasuredPoint | FailedPoint:
        """What became of the candidate that `genome` normalises to."""
        point = self._points[genome]
        if isinstance(point, SamePoint):
            point = self._points[point.same_as]
        assert not isinstance(point, SamePoint)  # the reader refuses chains
        return point

    def config(self, genome: Genome) -> Mapping[str, Any] | Failed:
        """The normalised config of `genome`, or why there is none.

        A config that failed with every ACF and without was recorded as failures alone: it is named by its values.
        """
        point = self.point(genome)
        if isinstance(point, FailedPoint) and point.failed.stage == "invalid_config":
            return point.failed
        axes = {d.label: list(d.values[i]) for d, i in zip(self.space.dimensions, genome, strict=False)}
        return self._configs.get(point.genome[:-1], axes)


def read_table(path: Path) -> ReplayTable:
    """The table at `path`; raises InputError, with the line, for anything that is no complete table."""
    lines = _lines(path)
    _, first = next(lines, (1, None))
    header = _checked(path, 1, lambda: _header(first))
    points: dict[Genome, Point] = {}
    candidates: dict[tuple[str, str], Genome] = {}
    number = 1
    for number, record in lines:
        point = _checked(path, number, lambda record=record: header.point(record))
        _checked(path, number, lambda point=point: _add(points, candidates, point))
    missing = _missing(header, points)
    if missing:
        raise InputError(
            f"the table holds {len(points)} of {header.space.size} points; "
            f"{', '.join(map(str, missing[:SHOWN_MISSING]))} are missing",
            where=f"{path}:{number}",
            next_step="record the rest: a strategy may propose any of them",
        )
    return ReplayTable(header, points)


def header_line(header: TableHeader) -> str:
    """The first line of a table."""
    return json.dumps({"format": TABLE_FORMAT, **header.to_json()})


def _header(record: Any) -> TableHeader:
    version = integer(record, "format")
    if version > TABLE_FORMAT:
        raise InputError(
            f"the table has format {version}, this helitune reads up to {TABLE_FORMAT}",
            next_step="upgrade helitune",
        )
    return TableHeader.from_json(record)


def _add(points: dict[Genome, Point], candidates: dict[tuple[str, str], Genome], point: Point) -> None:
    """Take one more point; ValueError where it contradicts an earlier one."""
    if point.genome in points:
        raise ValueError(f"genome: {list(point.genome)} stands here a second time")
    if isinstance(point, SamePoint):
        if not isinstance(points.get(point.same_as), MeasuredPoint | FailedPoint):
            raise ValueError(f"same_as: {list(point.same_as)} is no point of its own above this line")
    elif isinstance(point, MeasuredPoint):
        candidate = (canonical(point.config), point.acf_sha256)
        earlier = candidates.setdefault(candidate, point.genome)
        if earlier != point.genome:
            raise ValueError(f"config: that of {list(earlier)}, which same_as must name")
    points[point.genome] = point


def _missing(header: TableHeader, points: dict[Genome, Point]) -> list[Genome]:
    """The first genomes of the space that have no point."""
    if len(points) == header.space.size:
        return []
    product = itertools.product(*map(range, header.space.lengths))
    return list(itertools.islice((g for g in product if g not in points), SHOWN_MISSING))


def _checked(path: Path, line: int, read: Any) -> Any:
    """What `read` gives; InputError that names the line for its ValueErrors."""
    try:
        return read()
    except InputError as error:
        raise InputError(error.what, where=f"{path}:{line}", next_step=error.next_step) from error
    except ValueError as error:
        raise InputError(
            f"no line of a recorded table: {error}",
            where=f"{path}:{line}",
            next_step="record the table again",
        ) from error


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of the file's lines, with their numbers from 1."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield number, json.loads(line)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"cannot read the table: {reason}",
            where=f"{path}:{number + 1}",
            next_step=f"name a file that was recorded as a table ({SUFFIX})",
        ) from error
