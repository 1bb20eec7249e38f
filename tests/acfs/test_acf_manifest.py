from __future__ import annotations

import json
import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from acf_packs import describe
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helitune.acfs.errors import InputError
from helitune.acfs.manifest import read_manifest
from helitune.acfs.pack import read_pack

CONTENTS = {"a.acf": b"first", "b.acf": b"second"}
GOOD = describe(CONTENTS)
ENTRY = GOOD["acfs"][0]


def manifest_of(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "booster-pack-manifest.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_what_is_read_is_read_and_the_rest_is_ignored(tmp_path):
    document = {**GOOD, "validation_summary": 7, "future": [], "acfs": [{**ENTRY, "notes": None}]}
    manifest = read_manifest(manifest_of(tmp_path, json.dumps(document)))
    assert (manifest.pack_id, manifest.cuda_version, manifest.supported_gpus) == (
        "test-pack",
        "13.3",
        ("sm_90",),
    )
    assert manifest.controls_stage == "ptxas"
    assert [(acf.file, acf.size_bytes) for acf in manifest.acfs] == [("a.acf", 5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cuda_version": 13.3}, "cuda_version must be a string"),
        ({"cuda_version": "newest"}, "cuda_version is not a version"),
        ({"cuda_version": "13"}, "cuda_version is not a version"),
        ({"cuda_version": "9" * 5000 + ".3"}, "cuda_version is not a version"),
        ({"supported_gpus": "sm_90"}, "supported_gpus must be a list"),
        ({"supported_gpus": []}, "supported_gpus must list"),
        ({"supported_gpus": [90]}, "supported_gpus must list"),
        ({"schema_version": 2}, "schema_version 2 is not known"),
        ({"schema_version": True}, "schema_version must be an integer"),
        ({"pack_id": None}, "pack_id must be a string"),
        ({"acfs": {}}, "acfs must be a list"),
        ({"acfs": [{**ENTRY, "size_bytes": True}]}, r"size_bytes must be an integer .*acfs\[0\]"),
        ({"acfs": [ENTRY, {**ENTRY, "sha256": "abc"}]}, r"64 hexadecimal digits .*acfs\[1\]"),
        ({"acfs": [ENTRY, ["a.acf"]]}, r"a JSON object was expected .*acfs\[1\]"),
        ({"acfs": [{"filename": "a.acf"}]}, "the key sha256 is missing"),
        ({"acfs": [ENTRY] * 4097}, "more than 4096"),
    ],
)
def test_a_wrong_value_is_named(tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        read_manifest(manifest_of(tmp_path, json.dumps({**GOOD, **change})))
    assert "booster-pack-manifest.json" in caught.value.where
    assert caught.value.next_step


@pytest.mark.parametrize("key", ["cuda_version", "supported_gpus", "acfs"])
def test_a_missing_key_is_named(tmp_path, key):
    document = {name: value for name, value in GOOD.items() if name != key}
    with pytest.raises(InputError, match=f"the key {key} is missing"):
        read_manifest(manifest_of(tmp_path, json.dumps(document)))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b"\xff\xfe\xfa", b'"x"', b"[" * 100_000, b'{"schema_version": ' + b"9" * 5000 + b"}"],
    ids=["empty", "list", "cut", "undecodable", "string", "deep", "huge number"],
)
def test_what_is_no_json_object_is_an_input_error(tmp_path, text):
    with pytest.raises(InputError, match="malformed manifest"):
        read_manifest(manifest_of(tmp_path, text))


def test_a_syntax_error_has_its_line(tmp_path):
    with pytest.raises(InputError) as caught:
        read_manifest(manifest_of(tmp_path, '{\n "pack_id": nothing\n}'))
    assert caught.value.where.endswith("booster-pack-manifest.json:2")


def test_its_size_is_bounded(tmp_path):
    with pytest.raises(InputError, match="at most 4 MiB"):
        read_manifest(manifest_of(tmp_path, b" " * (4 * 2**20 + 1)))


names = st.sampled_from(["a.acf", "b.acf", "../a.acf", "/a.acf", ".", "\0", "\ud800.acf", "x" * 300 + ".acf"])
texts = names | st.text(string.printable, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
entries = st.fixed_dictionaries(
    {},
    optional={
        "filename": names | values,
        "sha256": st.just(ENTRY["sha256"]) | values,
        "size_bytes": st.just(5) | values,
    },
)
changes = st.dictionaries(st.sampled_from(sorted([*GOOD, "controls_stage", "other"])), values, max_size=2)


@settings(max_examples=150, deadline=None)
@given(changes, st.lists(entries | values, max_size=3), st.booleans())
@example({}, [{**ENTRY, "filename": "\ud800.acf"}], True)
@example({}, [{**ENTRY, "filename": "x" * 300 + ".acf"}], True)
def test_no_manifest_makes_anything_but_refusals_or_an_input_error(change: Any, acfs: Any, force: bool):
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "pack"
        folder.mkdir()
        for name, content in CONTENTS.items():
            (folder / name).write_bytes(content)
            (Path(parent) / name).write_bytes(content)
        manifest_of(folder, json.dumps({**GOOD, "acfs": acfs, **change}))
        before = sorted(path.relative_to(parent) for path in Path(parent).rglob("*"))
        try:
            pack = read_pack(folder, ptxas_version="13.3.73", arch="sm_90", force=force)
        except InputError as error:
            assert "\n" not in error.line()
        else:
            assert all(acf.path.parent == folder.resolve() for acf in pack.accepted)
            assert all(refusal.file.isprintable() and refusal.reason for refusal in pack.refused)
        assert sorted(path.relative_to(parent) for path in Path(parent).rglob("*")) == before


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=4))
def test_a_damaged_manifest_is_never_a_traceback(position: int, patch: bytes):
    text = json.dumps(GOOD).encode()
    position %= len(text)
    with TemporaryDirectory() as folder:
        manifest_of(Path(folder), text[:position] + patch + text[position + len(patch) :])
        try:
            read_pack(Path(folder), ptxas_version="13.3.73", arch="sm_90")
        except InputError as error:
            assert error.next_step
