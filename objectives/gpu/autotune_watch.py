"""Listen to Helion's autotuner while it searches: when it found what, and how many configs it tried."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Watch:
    """What one search of the autotuner told; its clock starts when it is made."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._trace: list[tuple[float, float]] = []
        self._metrics: Any = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self._started

    def entry(self, entry: Any) -> None:
        """Take one line of the autotuner's CSV: a config it is about to measure, has measured, or rejected."""
        if entry.status != "ok" or entry.perf_ms is None or not math.isfinite(entry.perf_ms):
            return
        if not self._trace or entry.perf_ms < self._trace[-1][1]:
            at = time.perf_counter() if entry.completed_at is None else entry.completed_at
            self._trace.append((round(at - self._started, 3), entry.perf_ms))

    def finished(self, metrics: Any) -> None:
        """Take the counts that Helion gives its hooks at the end."""
        self._metrics = metrics

    def to_json(self) -> dict[str, Any]:
        """The fields of a PeerResult that were listened to."""
        metrics = self._metrics
        return {
            "configs_tried": metrics.num_configs_tested,
            "failures": {
                "compile": metrics.num_compile_failures,
                "worker": metrics.num_worker_failures,
                "accuracy": metrics.num_accuracy_failures,
            },
            # Helion's word for "none" is 0
            "best_ms": metrics.best_perf_ms or None,
            "trace": [list(point) for point in self._trace],
        }


@contextmanager
def watched() -> Iterator[Watch]:
    """A Watch that hears of all that Helion's autotuner does in the block; `autotune_log` must be set.

    Its entries are those of Helion's CSV, taken where they are written: the file has hundredths of a second, and
    a clock that starts after the first compilation.
    """
    from helion.autotuner import metrics
    from helion.autotuner.logger import AutotuneLogSink

    watch = Watch()
    record = AutotuneLogSink.record

    def record_and_tell(sink: Any, entry: Any) -> None:
        watch.entry(entry)
        record(sink, entry)

    AutotuneLogSink.record = record_and_tell
    metrics.register_post_autotune_hook(watch.finished)
    try:
        yield watch
    finally:
        AutotuneLogSink.record = record
        metrics.remove_post_autotune_hook(watch.finished)
