"""Where a pin's files go, and that they come all or none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, FINGERPRINT, OWN, make_run

from helitune.acfs.content import digest
from helitune.acfs.errors import InputError, MachineError
from helitune.results.pin import Pin, PinnedAcf, read_pin
from helitune.results.pin_choice import make_pin
from helitune.results.pin_forms import MAX_SLUG, NOTICE, Place, StagedPin, slug
from helitune.search.args import parse_args

PACK_NOTICE = Path(__file__).parents[2] / "acfs" / "data" / "h200-seed" / "NOTICE"


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    run = make_run(tmp_path / "run", [OWN, BETTER])
    return make_pin(run, run.trials(), BETTER, FINGERPRINT, asked=False)


def save(config: Mapping[str, Any], path: Path) -> None:
    path.write_text(json.dumps(config))


def staged(pin: Pin, root: Path, acf: bytes | None = ACF) -> StagedPin:
    written = StagedPin(Place.of(pin, root), pin)
    written.write(acf, "CONFIG = None\n", save)
    return written


def files_in(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def everything(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in files_in(root)}


FOLDER = "softmax/sm_90"
FORMS = {f"{FOLDER}/f16_4096x2560{suffix}" for suffix in (".json", ".helion.json", ".py")}
WITH_ACF = FORMS | {f"{FOLDER}/{ACF_SHA256}.acf", f"{FOLDER}/NOTICE"}


def test_the_layout(pin: Pin, tmp_path: Path) -> None:
    staged(pin, tmp_path / "pins").commit()
    assert files_in(tmp_path / "pins") == WITH_ACF
    assert read_pin(tmp_path / "pins" / FOLDER / "f16_4096x2560.json") == pin


def test_without_an_acf_there_is_no_notice(pin: Pin, tmp_path: Path) -> None:
    staged(replace(pin, acf=None), tmp_path / "pins", acf=None).commit()
    assert files_in(tmp_path / "pins") == FORMS


def test_the_helion_form_holds_the_acf_as_an_absolute_path(
    pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    staged(pin, Path("pins")).commit()
    config = json.loads((tmp_path / "pins" / FOLDER / "f16_4096x2560.helion.json").read_text())
    assert Path(config.pop("advanced_controls_file")) == tmp_path / "pins" / FOLDER / f"{ACF_SHA256}.acf"
    assert config == pin.config


def test_the_notice_is_the_packs() -> None:
    assert PACK_NOTICE.read_text() == NOTICE


def test_before_commit_nothing_has_its_name(pin: Pin, tmp_path: Path) -> None:
    written = staged(pin, tmp_path / "pins")
    assert not files_in(tmp_path / "pins") & FORMS
    assert {p.name[0] for p in (written.json, written.helion, written.python)} == {"."}


def test_discard_leaves_nothing_not_even_folders(pin: Pin, tmp_path: Path) -> None:
    staged(pin, tmp_path / "new" / "pins").discard()
    assert not (tmp_path / "new").exists()


def test_discard_leaves_the_older_pin_alone(pin: Pin, tmp_path: Path) -> None:
    root = tmp_path / "pins"
    staged(pin, root).commit()
    before = everything(root)
    staged(replace(pin, config={"num_warps": 8}), root).discard()
    assert everything(root) == before


def test_a_new_pin_takes_the_place_and_drops_the_unused_acf(pin: Pin, tmp_path: Path) -> None:
    root, other = tmp_path / "pins", b"another ACF"
    staged(pin, root).commit()
    acf = PinnedAcf(sha256=digest(other), name="second", toolkit="13.3", ptxas="13.3.73")
    staged(replace(pin, acf=acf), root, other).commit()
    assert {p.name for p in (root / FOLDER).glob("*.acf")} == {acf.file}
    staged(replace(pin, acf=None), root, None).commit()
    assert files_in(root) == FORMS


def test_an_acf_that_another_pin_uses_stays(pin: Pin, tmp_path: Path) -> None:
    root = tmp_path / "pins"
    staged(pin, root).commit()
    staged(replace(pin, shapes=(parse_args("f16[8,8]"),)), root).commit()
    staged(replace(pin, acf=None), root, None).commit()
    assert f"{FOLDER}/{ACF_SHA256}.acf" in files_in(root) and f"{FOLDER}/NOTICE" in files_in(root)


def test_a_damaged_acf_in_place_is_repaired(pin: Pin, tmp_path: Path) -> None:
    root = tmp_path / "pins"
    staged(pin, root).commit()
    (root / FOLDER / f"{ACF_SHA256}.acf").write_bytes(b"")
    staged(pin, root).commit()
    assert (root / FOLDER / f"{ACF_SHA256}.acf").read_bytes() == ACF


def test_white_space_is_refused_only_for_an_acf(pin: Pin, tmp_path: Path) -> None:
    root = tmp_path / "my pins"
    with pytest.raises(InputError, match=r"white space.*give -o a folder without"):
        Place.of(pin, root)
    assert Place.of(replace(pin, acf=None), root).folder == root / FOLDER


@pytest.mark.parametrize("part", ["pins", "pins/softmax", "pins/softmax/sm_90"])
def test_a_file_in_the_way_is_named(pin: Pin, tmp_path: Path, part: str) -> None:
    (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / part).touch()
    with pytest.raises(InputError) as raised:
        Place.of(pin, tmp_path / "pins")
    assert str(tmp_path / part) in raised.value.line()


def test_a_failing_write_is_a_machine_error_and_leaves_nothing(pin: Pin, tmp_path: Path) -> None:
    def full(config: Mapping[str, Any], path: Path) -> None:
        path.write_text("{")
        raise MachineError("no space left")

    written = StagedPin(Place.of(pin, tmp_path / "pins"), pin)
    with pytest.raises(MachineError):
        written.write(ACF, "", full)
    written.discard()
    assert not (tmp_path / "pins").exists()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["f16[4096,2560]"], "f16_4096x2560"),
        (["bf16[128,256]{1,128}"], "bf16_128x256_s1x128"),
        (["f16[8,8] f32[8] 1e-05"], "f16_8x8_f32_8_v1em05"),
        (["f16[8] -0.5 True None"], "f16_8_vm0p5_vTrue_vNone"),
        (["f32[]"], "f32_scalar"),
        (["f16[8]", "f16[16]"], "f16_8__f16_16"),
        (["i64[8]<100"], "i64_8"),
    ],
)
def test_slugs_are_readable(texts: list[str], expected: str) -> None:
    assert slug(tuple(map(parse_args, texts))) == expected


HARD = [
    ["f16[8] '../../etc'"],
    ["f16[8] 'a'"],
    ["f16[8] 'b'"],
    ["f16[8] 'ä'"],
    ["f16[8] 'class'"],
    ["f16[1,2,3,4,5,6,7,8] " * 9],
    ["f16[1,2,3,4,5,6,7,8] " * 8 + "f16[1,2,3,4,5,6,7,9]"],
    ["3"],
]


def test_slugs_are_module_names_and_differ() -> None:
    slugs = [slug(tuple(map(parse_args, texts))) for texts in HARD]
    assert len(set(slugs)) == len(HARD)
    assert all(s.isidentifier() and s.isascii() and len(s) <= MAX_SLUG + 9 for s in slugs)
