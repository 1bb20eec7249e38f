"""Memory that nobody wrote does not look like a result, in whatever way and dtype it was allocated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from helitune.objectives.gpu.poison import PATTERNS, Poisoned
from helitune.objectives.inputs import TORCH_DTYPES
from helitune.search.dtypes import DTYPES

FLOATS = [short for short, dtype in DTYPES.items() if dtype.kind == "float"]
EXAMPLE = torch.arange(6.0).reshape(2, 3)

ALLOCATIONS: dict[str, Callable[[], torch.Tensor]] = {
    "empty": lambda: torch.empty(2, 3),
    "empty of a dtype and device": lambda: torch.empty((2, 3), dtype=torch.float16, device="cpu"),
    "empty_like": lambda: torch.empty_like(EXAMPLE),
    "empty_like of a transposed one": lambda: torch.empty_like(EXAMPLE.T),
    "empty_strided": lambda: torch.empty_strided((2, 3), (1, 2)),
    "empty_strided with gaps": lambda: torch.empty_strided((2, 3), (16, 2)),
    "empty_permuted": lambda: torch.empty_permuted((2, 3), (1, 0)),
    "new_empty": lambda: EXAMPLE.new_empty(2, 3),
    "new_empty_strided": lambda: EXAMPLE.new_empty_strided((2, 3), (1, 2)),
    "new": lambda: EXAMPLE.new(2, 3),
    "Tensor": lambda: torch.Tensor(2, 3),
    "Parameter": lambda: torch.nn.Parameter(torch.empty(2, 3)),
    "a part of a larger one": lambda: torch.empty(4, 8)[1:3, 2:5],
    "channels last": lambda: torch.empty(1, 2, 3, 3, memory_format=torch.channels_last),
}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the tensor's elements."""
    return tensor.detach().contiguous().view(torch.uint8)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_every_way_to_allocate_is_filled(name: str, pattern: int) -> None:
    with Poisoned(pattern):
        fresh = ALLOCATIONS[name]()
    assert fresh.numel() and bool((bits(fresh) == pattern).all())


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("short", [short for short in TORCH_DTYPES if short != "bool"])
def test_every_dtype_is_filled(short: str, pattern: int) -> None:
    with Poisoned(pattern):
        fresh = torch.empty(5, dtype=TORCH_DTYPES[short])
    assert bool((bits(fresh) == pattern).all())


@pytest.mark.parametrize("short", FLOATS)
def test_a_float_is_not_a_number_once_and_a_large_number_then(short: str) -> None:
    found = []
    for pattern in PATTERNS:
        with Poisoned(pattern):
            found.append(torch.empty(1, dtype=TORCH_DTYPES[short]).double())
    assert bool(torch.isnan(found[0]).all())
    assert bool(torch.isfinite(found[1]).all()) and float(found[1]) > 100


def test_a_bool_is_true_once_and_false_then() -> None:
    for pattern, value in zip(PATTERNS, (True, False), strict=True):
        with Poisoned(pattern):
            fresh = torch.empty(5, dtype=torch.bool)
        assert fresh.tolist() == [value] * 5
        assert set(bits(fresh).tolist()) == {int(value)}


@pytest.mark.parametrize("grow", [lambda t: t.resize_(9), lambda t: t.resize_as_(torch.zeros(9))])
def test_what_grows_keeps_what_it_had(grow: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with Poisoned(0xFF):
        grown = grow(torch.ones(4))
    assert grown[:4].tolist() == [1.0] * 4 and bool(torch.isnan(grown[4:]).all())


def test_what_does_not_grow_is_left_alone() -> None:
    whole = torch.arange(8.0)
    with Poisoned(0xFF):
        whole[2:6].resize_(3)
        torch.empty(3, out=whole[2:5])
    assert whole.tolist() == list(range(8))


def test_what_has_values_is_left_alone() -> None:
    with Poisoned(0xFF):
        made = [torch.zeros(3), torch.ones(3), torch.full((3,), 2.0), EXAMPLE.clone(), torch.tensor([1.0])]
        made += [EXAMPLE + 1, torch.empty(3).fill_(4.0), EXAMPLE.new_tensor([5.0]), torch.arange(3.0)]
    assert not any(bool(torch.isnan(tensor).any()) for tensor in made)


def test_what_holds_no_memory_is_no_fault() -> None:
    with Poisoned(0xFF):
        assert torch.empty(0).numel() == 0
        assert torch.empty(2, 2, layout=torch.sparse_coo).to_dense().sum() == 0
        assert torch.empty(3, device="meta").shape == (3,)


def test_memory_is_as_it_comes_when_it_is_over() -> None:
    with Poisoned(0xFF):
        pass
    assert not bool(torch.isnan(torch.empty(3).fill_(1.0)).any())
    kept = torch.ones(1000)
    with Poisoned(0xFF):
        torch.empty(1000)
    assert kept.sum() == 1000
