"""CompileIQ's engine itself: what this project relies on, with the real search space where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError
from helitune.search.strategies.amber import Amber, Asked, Axis

Score = Callable[[Asked], float | None]


def engine(controls: Path, folder: Path, *, seed: int = 1, axes: dict[str, Axis] | None = None) -> Amber:
    return Amber(controls, axes or {}, seed=seed, population=6, options={}, folder=folder)


def by_size(asked: Asked) -> float:
    return float(len(asked.controls))


def proposals(
    engine: Amber, batches: int, score: Score
) -> list[tuple[int, list[tuple[dict[str, int], int]]]]:
    """The generation of each batch, and its candidates without the bytes of their ACFs."""
    found = []
    for _ in range(batches):
        generation, asked = engine.generation, engine.ask()
        found.append((generation, [(dict(one.axes), len(one.controls)) for one in asked]))
        engine.tell([score(one) for one in asked])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"\0" * 4000, b"something else"], ids=["empty", "zeros", "text"])
def test_a_file_that_is_no_search_space_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.bin").write_bytes(content)
    with pytest.raises(InputError, match="does not take this search space"):
        engine(tmp_path / "bad.bin", tmp_path).ask()


@pytest.mark.slow
def test_the_same_seed_and_scores_give_the_same_controls_in_other_bytes(
    search_spaces: Path, tmp_path: Path
) -> None:
    (controls,) = search_spaces.glob("ptxas*.bin")
    one, again, other = (engine(controls, tmp_path, seed=seed) for seed in (1, 1, 2))
    first = proposals(one, 4, by_size)
    assert proposals(again, 4, by_size) == first != proposals(other, 4, by_size)
    assert [asked.controls for asked in one.ask()] != [asked.controls for asked in again.ask()]


@pytest.mark.slow
def test_failed_candidates_are_replaced_before_the_next_generation(
    search_spaces: Path, tmp_path: Path
) -> None:
    (controls,) = search_spaces.glob("ptxas*.bin")
    count = 0

    def some_fail(asked: Asked) -> float | None:
        nonlocal count
        count += 1
        return None if count % 3 == 0 else by_size(asked)

    found = proposals(engine(controls, tmp_path), 4, some_fail)
    assert [(generation, len(batch)) for generation, batch in found] == [(0, 6), (0, 2), (1, 6), (1, 2)]


@pytest.mark.slow
def test_axes_stand_beside_the_controls_and_may_be_left_out(search_spaces: Path, tmp_path: Path) -> None:
    (controls,) = search_spaces.glob("ptxas*.bin")
    axes = {"always": Axis(5), "seldom": Axis(3, knockout=0.9)}
    found = proposals(engine(controls, tmp_path, axes=axes), 3, by_size)
    indices = [indices for _, batch in found for indices, _ in batch]
    assert all(0 <= one["always"] < 5 and one.get("seldom", 0) in range(3) for one in indices)
    assert sum("seldom" not in one for one in indices) > 0
    assert all(size > 0 for _, batch in found for _, size in batch)
