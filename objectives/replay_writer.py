"""Record a table point by point: a plain file that grows while the GPU works, compressed once it is complete."""

from __future__ import annotations

import gzip
import json
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import IO

from helitune.acfs.errors import InputError
from helitune.search.space import Genome

from .replay_records import Point, TableHeader
from .replay_table import SUFFIX, header_line, read_table

PART = ".part"


class TableWriter:
    """Appends points to PATH.part, each on disk before `add` returns; `finish` makes the table of it.

    A context manager. Recording goes on where an earlier one of the same header was cut off: `recorded` holds
    the genomes that need not be measured again.

    Raises InputError for a path that is no NAME.jsonl.gz or exists, and for a .part of another header.
    """

    def __init__(self, path: Path, header: TableHeader) -> None:
        if not path.name.endswith(SUFFIX):
            raise InputError(
                "a table is a gzipped file of JSON lines", where=str(path), next_step=f"call it NAME{SUFFIX}"
            )
        if path.exists():
            raise InputError("there is a table already", where=str(path), next_step="name another file")
        self._path = path
        self._part = path.with_name(path.name + PART)
        self._header = header
        self._recorded: set[Genome] = set()
        self._file = self._opened()

    @property
    def recorded(self) -> AbstractSet[Genome]:
        """Genomes of the points that are on disk."""
        return self._recorded

    def add(self, point: Point) -> None:
        """Append one point; ValueError where it does not read back as itself in this table."""
        line = json.dumps(point.to_json())
        if self._header.point(json.loads(line)) != point:
            raise ValueError(f"{point} is no point of this table")
        self._file.write(line + "\n")
        self._file.flush()
        self._recorded.add(point.genome)

    def finish(self) -> None:
        """Compress the file to PATH and check it; InputError, PATH.part kept, where points are missing or wrong."""
        self._file.close()
        packed = self._path.with_name(self._path.name + ".new")
        # without the time and the name, equal tables are equal files
        packed.write_bytes(gzip.compress(self._part.read_bytes(), mtime=0))
        try:
            read_table(packed)
        except InputError:
            packed.unlink()
            raise
        packed.rename(self._path)
        self._part.unlink()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _opened(self) -> IO[str]:
        """The .part, open to append, without a last line that was cut off."""
        first = header_line(self._header)
        kept = self._part.read_text(encoding="utf-8") if self._part.exists() else ""
        whole = kept[: kept.rfind("\n") + 1].splitlines()
        if whole and whole[0] != first:
            raise InputError(
                "another recording was begun here",
                where=str(self._part),
                next_step="remove it, or record with the settings that it has in its first line",
            )
        self._recorded = {self._header.point(json.loads(line)).genome for line in whole[1:]}
        file = self._part.open("w", encoding="utf-8")
        file.writelines(line + "\n" for line in whole or [first])
        file.flush()
        return file
