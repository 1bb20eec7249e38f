"""The FLOPs that one call of the PyTorch reference takes, counted without computing: its tensors have no values.

For compile workers. A count is a lower bound of the work only as far as the reference says what must be done:
a mask that it passes as a tensor counts in full, and products written as `(a * b).sum()` do not count.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from helitune.search.dtypes import short_dtype

from .cpu_redirect import cuda_means_cpu
from .discovery_reference import ModelReference
from .flop_count import FlopCount, stated_flops
from .inputs_function import map_tensors
from .number_origin import NumberOrigin
from .user_code import stdout_to_stderr

if TYPE_CHECKING:
    from .discovery import LoadedWorkload

aten = torch.ops.aten

# what torch's own counter passes over
_MORE_FORMULAS: dict[Any, Callable[..., int]] = {
    aten.mv: lambda a, b: 2 * a.numel(),
    aten.addmv: lambda c, a, b, **_: 2 * a.numel(),
    aten.dot: lambda a, b: 2 * a.numel(),
    aten.vdot: lambda a, b: 2 * a.numel(),
    aten.addbmm: lambda c, a, b, **_: 2 * a.numel() * b.shape[-1],
    aten._int_mm: lambda a, b: 2 * a.numel() * b.shape[-1],
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, dropout=0.0, causal=False, **_: (
        attention_flops(q.shape, k.shape, v.shape, causal)
    ),
}
_ADDS_TO_FIRST = {aten.addmm, aten.baddbmm, aten.addmv, aten.addbmm}
# an operation with such a name multiplies matrices; without a formula the count would be too low
_MULTIPLIES = re.compile(r"(^|_)(mm|matmul|gemm|linear|conv|convolution|attention|rnn|lstm|gru)(_|\d|$)")
_NAMESPACES = ("aten", "prim", "prims")


class _Uncounted(Exception):
    """The reference runs an operation whose FLOPs are not known."""


def workload_flops(workload: LoadedWorkload, index: int) -> FlopCount | None:
    """FLOPs of one call on shape number `index`: as the Workload declares, else `derived_flops` of its reference."""
    derived = None
    if workload.reference is not None:
        derived = derived_flops(workload.reference, workload.fake_arguments(index, FakeTensorMode()))
    stated = workload.flops(index)
    return derived if stated is None else stated_flops(stated, derived, workload.shapes[index])


def derived_flops(reference: Callable[..., Any], arguments: Sequence[Any]) -> FlopCount | None:
    """FLOPs of `reference(*arguments)`; None where it cannot run without values, or runs what is not known.

    Of tensors among the arguments (fake, meta or real) only sizes, strides and dtypes are read. The reference
    runs on fakes on the CPU, where no operation asks for a GPU that a compile worker does not have. What it
    keeps for later calls (tables, say) has no values then: do not run it for real in the same process.
    """
    tally: Counter[str] = Counter()
    origin = NumberOrigin()
    counter = FlopCounterMode(display=False, custom_mapping=_formulas(tally, origin))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with warnings.catch_warnings(), stdout_to_stderr(), torch.no_grad(), mode:
            warnings.simplefilter("ignore")
            fakes = map_tensors(list(arguments), _on_cpu)
            call = _model_call(reference) if isinstance(reference, ModelReference) else reference
            with _Known(), origin, counter, cuda_means_cpu(), _Attention(tally, origin):
                call(*fakes)
    except MemoryError:
        raise  # a worker at its memory limit is to be replaced
    except (Exception, SystemExit):  # noqa: BLE001  the user's code: whatever it raises, there is no count
        return None
    return FlopCount(dict(sorted(tally.items())))


def attention_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int], causal: bool) -> int:
    """FLOPs of q kᵀ and of the product with v, for shapes [..., length, d]; half of them, about, if causal."""
    queries, keys = query[-2], key[-2]
    pairs = queries * keys
    if causal:  # query i sees keys 0..i
        square = min(queries, keys)
        pairs = square * (square + 1) // 2 + (queries - square) * keys
    return 2 * prod(query[:-2]) * pairs * (query[-1] + value[-1])


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _model_call(reference: ModelReference) -> Callable[..., Any]:
    """The reference's model, built anew: `reference` would keep weights that have no values.

    Module.to() cannot convert such weights, so that they are converted beside the model.
    """
    model = reference._build()

    def call(*arguments: Any) -> Any:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        dtype = next((t.dtype for t in tensors if t.is_floating_point() and t.dtype.itemsize > 1), None)
        weights = {
            name: tensor.to(dtype=dtype) if tensor.is_floating_point() else tensor
            for name, tensor in (*model.named_parameters(), *model.named_buffers())
        }
        return torch.func.functional_call(model, weights, arguments)

    return call


def _formulas(tally: Counter[str], origin: NumberOrigin) -> dict[Any, _Tallied]:
    return {
        operation: _Tallied(operation, formula, tally, origin)
        for operation, formula in {**flop_registry, **_MORE_FORMULAS}.items()
    }


class _Tallied:
    """A formula of FlopCounterMode that also adds what it counts to `tally`, under the operands' dtype."""

    _get_raw = True  # asks FlopCounterMode for the tensors instead of their shapes

    def __init__(
        self, operation: Any, formula: Callable[..., int], tally: Counter[str], origin: NumberOrigin
    ) -> None:
        self._formula = formula
        self._takes_output = operation in flop_registry
        self._first = 1 if operation in _ADDS_TO_FIRST else 0
        self._tally = tally
        self._origin = origin

    def __call__(self, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
        """FLOPs of one call of the operation."""
        output = {"out_val": out_val} if self._takes_output else {}
        count = int(self._formula(*args, **kwargs, **output))
        self._tally[_name(self._origin.widest(args[self._first : self._first + 2]))] += count
        return count


class _Known(TorchDispatchMode):  # type: ignore[misc]
    """Raises _Uncounted for an operation that may multiply matrices in a way that no formula counts."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        operation = func._overloadpacket
        if operation not in flop_registry and operation not in _MORE_FORMULAS:
            foreign = func.namespace not in _NAMESPACES
            if foreign or _MULTIPLIES.search(operation.__name__):
                raise _Uncounted(str(operation))
        return func(*args, **(kwargs or {}))


def _name(dtype: torch.dtype | None) -> str:
    short = short_dtype(str(dtype))
    if short is None:
        raise _Uncounted(f"products of {dtype}")
    return short


class _Attention(TorchFunctionMode):  # type: ignore[misc]
    """Counts scaled_dot_product_attention itself.

    Which operations it becomes depends on torch's version and on the GPU, and some of them compute what a
    causal mask hides.
    """

    def __init__(self, tally: Counter[str], origin: NumberOrigin) -> None:
        super().__init__()
        self._tally = tally
        self._origin = origin

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_: Any,
    ) -> torch.Tensor:
        dtype = _name(self._origin.widest((query, key)))
        self._tally[dtype] += attention_flops(query.shape, key.shape, value.shape, is_causal)
        return query.new_empty((*query.shape[:-1], value.shape[-1]))
