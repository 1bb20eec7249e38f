"""NVIDIA's formats beyond one pack: a release with its catalog, product names for GPUs, packs for two compilers."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acf_packs import describe

from helitune.acfs.catalog import find_packs, is_release, read_catalog, release_faults, release_packs
from helitune.acfs.errors import InputError
from helitune.acfs.gpu_names import architectures, fits
from helitune.acfs.pack import inspect_pack, read_pack

TWO = {"a.acf": b"first", "b.acf": b"second"}
WritePack = Callable[..., Path]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release as NVIDIA publishes them: two zips with a folder each, a catalog, and SHA256SUMS.txt."""
    folder = tmp_path / "release"
    folder.mkdir()
    packs = [
        add_zip(folder, "booster-pack-debug", pack_id="debug-pack", supported_gpus=["ALL"]),
        add_zip(folder, "booster-pack-helion", pack_id="helion-booster-pack", supported_gpus=["B200"]),
    ]
    catalog = {"schema_version": 1, "release_tag": "booster-packs-2026.05.27", "packs": packs}
    (folder / "booster-pack-catalog.json").write_text(json.dumps(catalog))
    write_sums(folder)
    return folder


def add_zip(folder: Path, name: str, **manifest: Any) -> dict[str, Any]:
    path = folder / f"{name}.zip"
    contents = {f"{name}.acf": name.encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        document = describe(contents, cuda_version="13.3.0", controls_stage="ptxas", **manifest)
        archive.writestr(f"{name}/booster-pack-manifest.json", json.dumps(document))
        for file, content in contents.items():
            archive.writestr(f"{name}/{file}", content)
    return {
        "pack_id": manifest["pack_id"],
        "artifact_name": path.name,
        "artifact_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "artifact_size_bytes": path.stat().st_size,
        "manifest_path": f"{name}/booster-pack-manifest.json",
    }


def write_sums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS.txt"
    ]
    (folder / "SHA256SUMS.txt").write_text("".join(lines))


def edit(folder: Path, **changes: Any) -> None:
    """Change the first pack of the catalog, which SHA256SUMS.txt then vouches for."""
    path = folder / "booster-pack-catalog.json"
    catalog = json.loads(path.read_text())
    catalog["packs"][0].update(changes)
    path.write_text(json.dumps(catalog))
    write_sums(folder)


def test_a_release_stands_for_its_packs(release: Path) -> None:
    assert is_release(release) and not is_release(release / "booster-pack-debug.zip")
    assert release_faults(release) == ()
    packs = [inspect_pack(path) for path in find_packs(str(release))]
    assert [(pack.name, len(pack.accepted)) for pack in packs] == [
        ("debug-pack", 1),
        ("helion-booster-pack", 1),
    ]


def test_each_damaged_file_of_a_release_is_named(release: Path) -> None:
    debug, helion = release / "booster-pack-debug.zip", release / "booster-pack-helion.zip"
    debug.write_bytes(debug.read_bytes()[:-1] + b"X")
    helion.unlink()
    faults = {fault.file: fault.reason for fault in release_faults(release)}
    assert faults[debug.name].startswith("sha256 is ")
    assert faults[helion.name] == "listed in booster-pack-catalog.json, but missing"
    with pytest.raises(InputError, match=r"the release has a fault: booster-pack-debug\.zip: sha256"):
        release_packs(release)


def test_a_catalog_that_was_changed_shows_in_the_sums(release: Path) -> None:
    path = release / "booster-pack-catalog.json"
    path.write_text(path.read_text().replace("05.27", "05.28"))
    assert [fault.file for fault in release_faults(release)] == [path.name]


def test_a_size_that_differs_is_a_fault(release: Path) -> None:
    edit(release, artifact_size_bytes=7)
    assert "listed in booster-pack-catalog.json with 7" in release_faults(release)[0].reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"artifact_name": "../x.zip"}, "not the name of a zip"),
        ({"artifact_name": "booster-pack-catalog.json"}, "not the name of a zip"),
        ({"artifact_name": 7}, r"artifact_name is missing or of another type .*packs\[0\]"),
        ({"artifact_size_bytes": True}, "artifact_size_bytes is missing or of another type"),
        ({"artifact_sha256": "abc"}, "64 hexadecimal digits"),
    ],
)
def test_a_malformed_entry_is_named(release: Path, changes: dict[str, Any], message: str) -> None:
    edit(release, **changes)
    with pytest.raises(InputError, match=message):
        read_catalog(release)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"packs": {}}', '{"packs": [7]}', '{"packs": [], "schema_version": 2}', "[" * 99_999],
)
def test_what_is_no_catalog_is_an_input_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "booster-pack-catalog.json").write_text(text)
    with pytest.raises(InputError, match="malformed catalog"):
        read_catalog(tmp_path)


class TestGpuNames:
    @pytest.mark.parametrize(
        ("names", "arch", "expected"),
        [
            (["B200"], "sm_100", True),
            (["NVIDIA B200"], "sm_100", True),
            (["B200"], "sm_90", False),
            (["B200"], "sm_100a", False),
            (["H100", "H200"], "sm_90", True),
            (["RTX PRO 6000 Blackwell"], "sm_120", True),
            (["ALL"], "sm_80", True),
            (["all"], "sm_121", True),
            (["sm_90"], "sm_90", True),
            (["SM_90"], "sm_90", True),
            (["sm_9"], "sm_90", False),
            (["B2000"], "sm_100", False),
            (["Voodoo 2"], "sm_90", False),
        ],
    )
    def test_a_pack_fits_what_its_names_stand_for(self, names: list[str], arch: str, expected: bool) -> None:
        assert fits(names, arch) is expected

    def test_unknown_names_are_kept_and_all_is_no_restriction(self) -> None:
        assert architectures(["B200", "GB200", "Voodoo 2"]) == ("sm_100", "Voodoo 2")
        assert architectures(["B200", "ALL"]) == ()

    def test_nvidias_helion_pack_is_for_b200_alone(self, write_pack: WritePack) -> None:
        pack = write_pack(TWO, manifest={"cuda_version": "13.4.0", "supported_gpus": ["B200"]})
        fit = read_pack(pack, ptxas_version="13.4.92", arch="sm_100")
        assert {(acf.arch, acf.toolkit) for acf in fit.accepted} == {(("sm_100",), "13.4")}
        misfit = read_pack(pack, ptxas_version="13.3.73", arch="sm_90").misfit
        assert all(part in misfit for part in ("CUDA 13.4.0", "13.3.73", "B200", "sm_90"))


class TestStages:
    def pack(self, write_pack: WritePack, stages: list[Any], **manifest: Any) -> dict[str, str]:
        acfs = describe(TWO)["acfs"]
        for entry, stage in zip(acfs, stages, strict=True):
            if stage is not None:
                entry["compiler_stages"] = stage
        pack = inspect_pack(write_pack(TWO, manifest={"acfs": acfs, **manifest}))
        assert not any(refusal.fault for refusal in pack.refused)
        return {acf.name: "" for acf in pack.accepted} | {r.file: r.reason for r in pack.refused}

    def test_an_acf_for_ptxas_alone_is_taken_from_a_mixed_pack(self, write_pack: WritePack) -> None:
        found = self.pack(write_pack, [["ptxas"], ["nvcc", "ptxas"]], controls_stage="both")
        assert found == {"a": "", "b.acf": "for nvcc and ptxas, not for ptxas alone"}

    def test_in_a_mixed_pack_each_must_say(self, write_pack: WritePack) -> None:
        found = self.pack(write_pack, [["ptxas"], None], controls_stage="both")
        assert found == {"a": "", "b.acf": "in a pack for several compilers, and does not say for which"}

    def test_a_pack_for_ptxas_need_not_say_it_again(self, write_pack: WritePack) -> None:
        assert self.pack(write_pack, [None, ["ptxas"]]) == {"a": "", "b": ""}

    @pytest.mark.parametrize("stages", ["ptxas", [7], None])
    def test_stages_of_another_type_are_malformed(self, write_pack: WritePack, stages: Any) -> None:
        acfs = describe(TWO)["acfs"]
        acfs[0]["compiler_stages"] = stages
        with pytest.raises(InputError, match="compiler_stages must"):
            inspect_pack(write_pack(TWO, manifest={"acfs": acfs}))


def test_what_a_manifest_tells_people_is_read_on_one_line(write_pack: WritePack) -> None:
    acfs = describe(TWO)["acfs"]
    acfs[0]["description"], acfs[0]["notes"], acfs[1]["notes"] = "two\nlines", "\x1b[31mred", ["no text"]
    manifest = inspect_pack(write_pack(TWO, manifest={"acfs": acfs, "display_name": "x" * 600})).manifest
    assert manifest is not None
    assert manifest.acfs[0].says == "two lines: \\x1b[31mred"
    assert manifest.acfs[1].says == ""
    assert len(manifest.says) == 500 and manifest.says.endswith("...")


def test_a_pack_listed_by_sha256sums_txt_is_bound_by_it(write_pack: WritePack) -> None:
    folder = write_pack({**TWO, "c.acf": b"third"})
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in TWO.items()]
    (folder / "SHA256SUMS.txt").write_text("".join(sums))
    pack = inspect_pack(folder)
    assert [acf.name for acf in pack.accepted] == ["a", "b"]
    assert [(r.file, r.reason) for r in pack.refused] == [("c.acf", "not listed in SHA256SUMS.txt")]
