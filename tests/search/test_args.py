"""The text form of arguments: what it reads, what it refuses, where it points; it reads itself back."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helitune.acfs.errors import InputError
from helitune.search.args import format_shape, parse_args
from helitune.search.dtypes import DTYPES, LONG_NAMES, contiguous_strides, short_dtype, tensor_bytes
from helitune.search.workload import ScalarArg, Shape, TensorArg


def test_a_whole_call() -> None:
    shape = parse_args("f16[4096,2560] f16[2560] 1e-5")
    assert shape == (
        TensorArg("f16", (4096, 2560), (2560, 1)),
        TensorArg("f16", (2560,), (1,)),
        ScalarArg(1e-5),
    )


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "strides", "values"),
    [
        ("bf16[128,256]{1,128}", "bf16", (128, 256), (1, 128), "normal"),
        ("f32[]", "f32", (), (), "normal"),
        ("f32[8,16]{0,1}", "f32", (8, 16), (0, 1), "normal"),
        ("i64[4096]<32000", "i64", (4096,), (1,), "<32000"),
        ("f16[4]<10", "f16", (4,), (1,), "<10"),
        ("f32[1]=1.0", "f32", (1,), (1,), "=1.0"),
        ("f32[1]=1", "f32", (1,), (1,), "=1"),
        ("f32[1]=-inf", "f32", (1,), (1,), "=-inf"),
        ("bool[1]=True", "bool", (1,), (1,), "=1"),
        ("f32[4,4]=zeros", "f32", (4, 4), (4, 1), "zeros"),
        ("f32[4,4]=ones", "f32", (4, 4), (4, 1), "ones"),
        ("f32[8]=0..1", "f32", (8,), (1,), "0..1"),
        ("f32[8]=-1.5...5", "f32", (8,), (1,), "-1.5..0.5"),
        ("i8[8]=-128..128", "i8", (8,), (1,), "-128..128"),
        ("i32[8]~perm", "i32", (8,), (1,), "perm"),
        ("torch.float16[3, 5]", "f16", (3, 5), (5, 1), "normal"),
        ("FP8[16]", "f8e4m3", (16,), (1,), "normal"),
    ],
)
def test_tensors(
    text: str, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], values: str
) -> None:
    assert parse_args(text) == (TensorArg(dtype, shape, strides, values),)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("+8", 8),
        ("1e-5", 1e-5),
        ("2.", 2.0),
        ("inf", math.inf),
        ("True", True),
        ("False", False),
        ("None", None),
        ("'a b, [c]'", "a b, [c]"),
        ('"it\'s"', "it's"),
        (r"'\''", "'"),
    ],
)
def test_scalars(text: str, value: object) -> None:
    (arg,) = parse_args(text)
    assert isinstance(arg, ScalarArg)
    assert (type(arg.value), arg.value) == (type(value), value)


def test_spaces_and_commas_between_arguments_do_not_matter() -> None:
    assert parse_args("  f16[4, 8],8 ,\t1.0 ") == parse_args("f16[4,8] 8 1.0")


@pytest.mark.parametrize(
    ("text", "what", "column", "next_step"),
    [
        ("f16[8] f17[4]", "unknown dtype 'f17'", 8, "f16"),
        ("[4]", "without a dtype", 1, "f16"),
        ("f16[8] f16[4096", "[ is not closed", 11, "]"),
        ("f16[8]{1", "{ is not closed", 7, "}"),
        ("f16 ]", "] closes nothing", 5, "f16[4096,2560]"),
        ("8 'abc", "' is not closed", 3, "'"),
        ("f16[0]", "size 0 is below 1", 1, "1 or more"),
        ("f16[4,-8]", "size -8 is below 1", 1, "1 or more"),
        ("f16[4 8]", "'4 8' is not a size", 1, "commas"),
        ("f16[4,,8]", "'' is not a size", 1, "commas"),
        ("f16[4.0]", "'4.0' is not a size", 1, "integers"),
        ("f16[N]", "'N' is not a size", 1, "integers"),
        ("f16[4]{-1}", "stride -1 is below 0", 1, "0 or more"),
        ("f16[4,8]{8}", "2 sizes but 1 strides", 1, "one stride for each size"),
        ("f16[4]{8,1}", "1 sizes but 2 strides", 1, "one stride for each size"),
        ("f16[4][8]", "not a tensor", 1, "dtype[sizes]"),
        ("f16[4]?", "no kind of values", 1, "=zeros"),
        ("f16[4]=", "'' is not a number", 1, "=1"),
        ("f16[4]=one", "'one' is not a number", 1, "=1"),
        ("f16[4]<", "'' is not a number", 1, "<2"),
        ("f16[4]<0", "nothing lies in", 1, "above 0"),
        ("f16[4]<inf", "nothing lies in", 1, "finite"),
        ("f16[4]=1..0", "is not a range", 1, "low first"),
        ("f16[4]=0..", "is not a range", 1, "low first"),
        ("f16[4]=0..inf", "is not a range", 1, "low first"),
        ("i32[4]=1.0", "holds integers", 1, "i32[8]=1"),
        ("i32[4]=0..0.5", "holds integers", 1, "i32[8]=1"),
        ("u8[4]<257", "257 does not fit u8", 1, "0 to 255"),
        ("u8[4]=-1", "-1 does not fit u8", 1, "0 to 255"),
        ("bool[4]=2", "2 does not fit bool", 1, "0 to 1"),
        ("f32[4]=True", "'True' is not a number", 1, "=1"),
        ("f32[8]~perm", "cannot hold a permutation", 1, "i32[8]~perm"),
        ("i8[129]~perm", "cannot hold a permutation", 1, "i64"),
        ("c64[8]", "no values can be drawn", 1, "inputs()"),
        ("f16", "no sizes", 1, "f16[4096,2560]"),
        ("true", "not a value", 1, "True"),
        ("8 abc", "neither a tensor nor a scalar", 3, "quote"),
        ("1_000", "neither a tensor nor a scalar", 1, "'text'"),
        (r"'\x'", "none that Python reads", 1, "backslash"),
    ],
)
def test_refusals_point_at_the_argument(text: str, what: str, column: int, next_step: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_args(text)
    assert what in caught.value.what
    assert caught.value.where.startswith(f"{text!r}, column {column}: ")
    assert next_step in caught.value.next_step


@pytest.mark.parametrize("text", ["", "  ", ","])
def test_no_arguments(text: str) -> None:
    with pytest.raises(InputError, match="no arguments given"):
        parse_args(text)


def test_limits_that_just_fit() -> None:
    for text in (
        "u8[4]<256",
        "u8[4]=0..256",
        "i8[128]~perm",
        "i8[256]{0}~perm",
        "bool[4]<2",
        "i64[1]=-9223372036854775808",
    ):
        assert parse_args(text)


def test_every_long_name_means_its_short_one() -> None:
    for short, names in LONG_NAMES.items():
        for name in (short, *names):
            assert short_dtype(name) == short_dtype(f"torch.{name}") == short
    assert short_dtype("float24") is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f16[128,256]", 128 * 256 * 2),
        ("bf16[128,256]{1,128}", 128 * 256 * 2),
        ("f32[128,256]{0,1}", 256 * 4),
        ("f32[128]{0}", 4),
        ("f32[4,8]{16,1}", 4 * 8 * 4),
        ("f64[]", 8),
        ("bool[3]", 3),
        ("f32[5,3]{1,1}", 7 * 4),
    ],
)
def test_bytes(text: str, size: int) -> None:
    (arg,) = parse_args(text)
    assert isinstance(arg, TensorArg)
    assert tensor_bytes(arg) == size


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), max_size=3))
def test_bytes_count_each_address_once_and_never_too_few(dims: list[tuple[int, int]]) -> None:
    arg = TensorArg("f8e4m3", tuple(size for size, _ in dims), tuple(stride for _, stride in dims))
    indices = itertools.product(*(range(size) for size in arg.shape))
    offsets = {sum(i * s for i, s in zip(index, arg.strides, strict=True)) for index in indices}
    assert len(offsets) <= tensor_bytes(arg) <= min(math.prod(arg.shape), max(offsets) + 1)


SIZES = st.lists(st.integers(1, 9000), max_size=4).map(tuple)
INTEGERS = st.integers(0, 100)
FLOATS = st.floats(-1e6, 1e6).map(float)


@st.composite
def tensors(draw: st.DrawFn) -> TensorArg:
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    kind = DTYPES[dtype].kind
    shape = draw(SIZES)
    strides = draw(
        st.one_of(st.just(contiguous_strides(shape)), st.tuples(*[st.integers(0, 9000) for _ in shape]))
    )
    number = FLOATS if kind == "float" else st.integers(0, 1) if kind == "bool" else INTEGERS
    low = draw(number)
    kinds = ["given"]
    if kind != "opaque":
        kinds += ["normal", "zeros", "ones", f"={low}", "<2"]
    if kind in ("float", "int", "uint"):
        kinds += [f"{low}..{low + 20}", f"<{abs(low) + 1}"]
    if kind == "int" and dtype == "i64":
        kinds.append("perm")
    return TensorArg(dtype, shape, strides, draw(st.sampled_from(kinds)))


SCALARS = st.one_of(
    st.integers(-(2**63), 2**64), st.floats(allow_nan=False), st.booleans(), st.none(), st.text()
).map(ScalarArg)


@given(st.lists(st.one_of(tensors(), SCALARS), min_size=1, max_size=5).map(tuple))
def test_what_is_written_is_read_back(shape: Shape) -> None:
    again = parse_args(format_shape(shape))
    assert again == shape
    assert [type(a.value) for a in again if isinstance(a, ScalarArg)] == [
        type(a.value) for a in shape if isinstance(a, ScalarArg)
    ]


@given(st.text(alphabet="f16[]{}<>=~.,'\"\\ 0123 eipermTrueNone-"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        shape = parse_args(text)
    except InputError as error:
        assert error.next_step
    else:
        assert format_shape(shape)
