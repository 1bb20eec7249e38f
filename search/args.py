"""The text form of a kernel's arguments, as `--args` takes it: `f16[4096,2560] i64[4096]<32000 1e-5`.

An argument is a scalar (`8`, `1e-5`, `-inf`, `True`, `None`, `'text'`) or a tensor:

    DTYPE [ sizes ] { strides } VALUES      f16[4096,2560]   bf16[128,256]{1,128}   f32[]   i64[4096]<32000

Strides are in elements and row-major by default. VALUES says what fills the tensor:

    (nothing)   floats: standard normal. i16, i32, i64 and their unsigned: 0 or 1, an index into anything;
                i8 and u8: every value, as quantised weights have them; bool: a fair coin
    =V =zeros =ones     that constant
    <N                  in [0, N): integers, or floats drawn uniformly
    =LO..HI             in [LO, HI)
    ~perm               a permutation of 0..n-1 (integers)
    ~given              made by the kernel file; written by `format_shape`, never typed
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from dataclasses import dataclass

from helitune.acfs.errors import InputError

from .dtypes import DTYPES, contiguous_strides, distinct_elements, short_dtype
from .workload import Argument, ScalarArg, Shape, TensorArg

EXAMPLE = "write for example 'f16[4096,2560] i64[4096]<32000 1e-5'"

_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_ARGUMENT = re.compile(rf"(?:{_QUOTED}|\[[^\[\]]*\]|\{{[^{{}}]*\}}|[^\s,\[\]{{}}'\"])+")
_SEPARATORS = re.compile(r"[\s,]*")
_TENSOR = re.compile(
    r"(?P<dtype>[^\[\]{}]*)\[(?P<shape>[^\]]*)\](?:\{(?P<strides>[^}]*)\})?(?P<values>[^\[\]{}]*)"
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)")
_CLOSING = {"[": "]", "{": "}"}
_WORDS = {"True": True, "False": False, "None": None}
_NAMED_VALUES = {"": "normal", "=zeros": "zeros", "=ones": "ones", "~perm": "perm", "~given": "given"}


@dataclass(frozen=True, slots=True)
class _Token:
    """One argument as typed, its column (from 1), and the line it stands in."""

    text: str
    column: int
    line: str

    def error(self, what: str, next_step: str = EXAMPLE) -> InputError:
        where = f"{self.line!r}, column {self.column}: {self.text!r}"
        return InputError(what, where=where, next_step=next_step)


def parse_args(text: str) -> Shape:
    """The arguments of one call, in order; InputError with the column and the argument that is wrong."""
    shape = tuple(_parse(token) for token in _split(text))
    if not shape:
        raise InputError("no arguments given", where=repr(text), next_step=EXAMPLE)
    return shape


def format_shape(shape: Shape) -> str:
    """The text that `parse_args` reads back as the same shape."""
    return " ".join(map(_format_argument, shape))


def _parse(token: _Token) -> Argument:
    tensor = "[" in token.text and token.text[0] not in "'\""
    return _parse_tensor(token) if tensor else _parse_scalar(token)


def _format_argument(arg: Argument) -> str:
    if isinstance(arg, ScalarArg):
        return repr(arg.value)
    text = f"{arg.dtype}[{','.join(map(str, arg.shape))}]"
    if arg.strides != contiguous_strides(arg.shape):
        text += f"{{{','.join(map(str, arg.strides))}}}"
    return text + _format_values(arg.values)


def _format_values(values: str) -> str:
    for typed, named in _NAMED_VALUES.items():
        if values == named:
            return typed
    return f"={values}" if ".." in values else values


def _split(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while match := _SEPARATORS.match(text, position):
        position = match.end()
        if position == len(text):
            break
        argument = _ARGUMENT.match(text, position)
        end = argument.end() if argument else position
        if end < len(text) and text[end] not in " \t\r\n,":
            raise _unclosed(text, position, end)
        tokens.append(_Token(text[position:end], position + 1, text))
        position = end
    return tokens


def _unclosed(text: str, start: int, end: int) -> InputError:
    mark = text[end]
    token = _Token(text[start:].split()[0], end + 1, text)
    if mark in "]}":
        return token.error(f"{mark} closes nothing")
    closing = _CLOSING.get(mark, mark)
    return token.error(f"{mark} is not closed", f"close it with {closing}, as in 'f16[64,128]{{1,64}}'")


def _parse_scalar(token: _Token) -> ScalarArg:
    text = token.text
    if text in _WORDS:
        return ScalarArg(_WORDS[text])
    number = _number(text)
    if number is not None:
        return ScalarArg(number)
    if re.fullmatch(_QUOTED, text):
        return ScalarArg(_unquote(token))
    if short_dtype(text):
        raise token.error(f"{text} has no sizes", f"write {text}[4096,2560], or {text}[] for a 0-d tensor")
    if text.capitalize() in _WORDS:
        raise token.error(f"{text} is not a value", f"write {text.capitalize()}")
    raise token.error(f"{text} is neither a tensor nor a scalar", f"{EXAMPLE}; quote a string: \"'text'\"")


def _unquote(token: _Token) -> str:
    try:
        return str(ast.literal_eval(token.text))
    except (SyntaxError, ValueError) as error:
        raise token.error("the string is none that Python reads", "double the backslash") from error


def _parse_tensor(token: _Token) -> TensorArg:
    match = _TENSOR.fullmatch(token.text)
    if match is None:
        raise token.error("not a tensor", "the order is dtype[sizes]{strides}values: bf16[128,256]{1,128}=1")
    dtype = _dtype(token, match["dtype"])
    shape = _integers(token, match["shape"], "size", least=0 if match["values"] == "~given" else 1)
    strides = contiguous_strides(shape)
    if match["strides"] is not None:
        strides = _integers(token, match["strides"], "stride", least=0)
    if len(strides) != len(shape):
        counts = f"{len(shape)} sizes but {len(strides)} strides"
        raise token.error(counts, "give one stride for each size: bf16[128,256]{1,128}")
    arg = TensorArg(dtype, shape, strides)
    return TensorArg(dtype, shape, strides, _values(token, match["values"], arg))


def _dtype(token: _Token, name: str) -> str:
    short = short_dtype(name)
    if short is None:
        close = difflib.get_close_matches(name.lower(), DTYPES, n=2, cutoff=0.5)
        known = " or ".join(close) if close else ", ".join(DTYPES)
        raise token.error(f"unknown dtype {name!r}" if name else "a tensor without a dtype", f"use {known}")
    return short


def _integers(token: _Token, text: str, what: str, least: int) -> tuple[int, ...]:
    if not text.strip():
        return ()
    example = "bf16[128,256]{1,128}" if what == "stride" else "f16[4096,2560]"
    numbers = []
    for part in text.split(","):
        part = part.strip()
        if not _INTEGER.fullmatch(part):
            raise token.error(f"{part!r} is not a {what}", f"write integers and commas: {example}")
        if int(part) < least:
            raise token.error(f"{what} {part} is below {least}", f"give {least} or more: {example}")
        numbers.append(int(part))
    return tuple(numbers)


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else None


def _values(token: _Token, text: str, arg: TensorArg) -> str:
    dtype = DTYPES[arg.dtype]
    if dtype.kind == "opaque" and text != "~given":
        raise token.error(f"no values can be drawn for {arg.dtype}", "make it in an inputs() function")
    if text in _NAMED_VALUES:
        return _permutation(token, arg) if text == "~perm" else _NAMED_VALUES[text]
    if text[0] == "=" and text[1:] in ("True", "False") and dtype.kind == "bool":
        return f"={int(text == '=True')}"
    if text[0] == "<":
        return f"<{_limit(token, text[1:], arg.dtype, last=-1)}"
    if text[0] == "=" and ".." in text:
        return _range(token, text[1:], arg.dtype)
    if text[0] == "=":
        return f"={_limit(token, text[1:], arg.dtype)}"
    raise token.error(f"{text!r} is no kind of values", "use =1.0, =zeros, =ones, <32000, =0..1 or ~perm")


def _limit(token: _Token, text: str, dtype: str, last: int = 0) -> int | float:
    """The number of `=V` (last 0) or `<N` (last -1: N - 1 must fit the dtype, and N be above 0)."""
    number = _number(text)
    if number is None:
        raise token.error(f"{text!r} is not a number", f"write a number: {dtype}[8]{'<2' if last else '=1'}")
    if last and not 0 < number < math.inf:
        raise token.error(f"nothing lies in [0, {text})", f"give a finite number above 0: {dtype}[8]<32")
    return _fitting(token, number, dtype, last)


def _range(token: _Token, text: str, dtype: str) -> str:
    low, high = map(_number, text.split("..", 1))
    if low is None or high is None or not -math.inf < low < high < math.inf:
        raise token.error(f"{text} is not a range", f"write two numbers, low first: {dtype}[8]=0..1")
    return f"{_fitting(token, low, dtype)}..{_fitting(token, high, dtype, last=-1)}"


def _fitting(token: _Token, number: int | float, dtype: str, last: int = 0) -> int | float:
    if DTYPES[dtype].kind == "float":
        return number
    low, high = DTYPES[dtype].integer_range()
    if not isinstance(number, int):
        raise token.error(f"{dtype} holds integers, {number} is none", f"write an integer: {dtype}[8]=1")
    if not low <= number + last <= high:
        raise token.error(f"{number} does not fit {dtype}", f"{dtype} holds {low} to {high}")
    return number


def _permutation(token: _Token, arg: TensorArg) -> str:
    dtype = DTYPES[arg.dtype]
    if dtype.kind not in ("int", "uint"):
        raise token.error(f"{arg.dtype} cannot hold a permutation", "use an integer dtype: i32[8]~perm")
    if distinct_elements(arg) - 1 > dtype.integer_range()[1]:
        raise token.error(
            f"{arg.dtype} cannot hold a permutation so long", "use a wider dtype: i64[512]~perm"
        )
    return "perm"
