"""A content-addressed cache of compiled things that outlives runs and stays below a size.

An entry is named by the sha256 of all that decides its content, so it is never stale. Its first line is the
sha256 of the rest: what a crash or a full disk left half written reads as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path

DEFAULT_MAX_BYTES = 2 << 30
TRIMMED_FRACTION = 0.8
"""A full cache is trimmed to this share of its bound, so that trimming is rare."""


class CompileCache:
    """Files under `root/<kind>/<2 hex>/<key>`, least recently used first out above `max_bytes`."""

    def __init__(self, root: Path, max_bytes: int | None = None) -> None:
        self._root = root
        self._max_bytes = max_bytes if max_bytes is not None else _bound_from_environment()

    def get(self, kind: str, key: str) -> bytes | None:
        """The entry's content, or None; reading marks it as recently used."""
        path = self._path(kind, key)
        try:
            stored = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a cache that others own can be read all the same
            os.utime(path)
        checksum, _, content = stored.partition(b"\n")
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            _removed(path)
            return None
        return content

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Store `content`; a cache that cannot be written (full or read-only disk) stays as it is."""
        path = self._path(kind, key)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # no fsync: the checksum tells a torn entry, and a lost one is only compiled again
            temporary.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            temporary.replace(path)
        except OSError:
            _removed(temporary)

    def trim(self) -> int:
        """Bytes removed to bring the cache back under its bound; 0 when it was."""
        entries = sorted(self._entries(), key=lambda entry: entry[0])
        size = sum(bytes_ for _, bytes_, _ in entries)
        if size <= self._max_bytes:
            return 0
        removed = 0
        for _, bytes_, path in entries:
            if size - removed <= self._max_bytes * TRIMMED_FRACTION:
                break
            if _removed(path):
                removed += bytes_
        return removed

    def _path(self, kind: str, key: str) -> Path:
        return self._root / kind / key[:2] / key

    def _entries(self) -> list[tuple[float, int, Path]]:
        """(last use, size in bytes, path) of every entry."""
        found: list[tuple[float, int, Path]] = []
        for path in self._root.glob("*/??/*"):
            try:
                status = path.stat()
            except OSError:
                continue  # another process trimmed it
            found.append((status.st_mtime, status.st_size, path))
        return found


def _removed(path: Path) -> bool:
    """Whether `path` is gone; False where it may not be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _bound_from_environment() -> int:
    text = os.environ.get("HELITUNE_CACHE_MAX_BYTES", "")
    return int(text) if text.isdigit() else DEFAULT_MAX_BYTES
