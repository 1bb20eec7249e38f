"""Packs taken into the user's folder: whole or not at all, and found by name afterwards."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from acf_packs import describe

from helitune.acfs import pack_folders
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.pack import inspect_pack, read_pack, resolve_pack, shipped_pack
from helitune.acfs.pack_folders import is_pack_name, users_folder, users_packs
from helitune.acfs.pack_import import import_pack

TWO = {"a.acf": b"first", "b.acf": b"second"}
WritePack = Callable[..., Path]


@pytest.fixture(autouse=True)
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of packs, which is not there yet."""
    folder = tmp_path / "users" / "packs"
    monkeypatch.setenv("HELITUNE_PACK_DIR", str(folder))
    return folder


def zipped(folder: Path, prefix: str = "") -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, prefix + path.name)
    return target


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_pack_is_there_by_its_own_name_with_all_that_belongs_to_it(
    write_pack: WritePack, users: Path, as_zip: bool
) -> None:
    folder = write_pack(
        {**TWO, "NOTICE": b"mine", "README.md": b"", "odd.txt": b"x"},
        manifest={"acfs": describe(TWO)["acfs"]},
    )
    (folder / "sub").mkdir()
    imported = import_pack(zipped(folder, "pack/") if as_zip else folder)
    assert (imported.name, imported.path) == ("test-pack", users / "test-pack")
    assert below(users) == [
        "test-pack",
        *(
            f"test-pack/{name}"
            for name in ("NOTICE", "README.md", "a.acf", "b.acf", "booster-pack-manifest.json")
        ),
    ]
    assert [refusal.file for refusal in imported.left_out] == ["odd.txt"]
    assert resolve_pack("test-pack") == users / "test-pack"
    pack = read_pack(resolve_pack("test-pack"), ptxas_version="13.3.73", arch="sm_90")
    assert ([acf.name for acf in pack.accepted], pack.refused, pack.notice) == (["a", "b"], (), "mine")


def test_the_shipped_pack_can_be_imported_under_another_name(users: Path) -> None:
    with pytest.raises(InputError, match="name of a pack that comes with helitune"):
        import_pack(shipped_pack())
    import_pack(shipped_pack(), name="mine")
    assert [acf.sha256 for acf in inspect_pack(users / "mine").accepted] == [
        acf.sha256 for acf in inspect_pack(shipped_pack()).accepted
    ]


def test_a_plain_folder_takes_its_own_name(write_pack: WritePack, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pack(TWO, name="plain")
    monkeypatch.chdir(folder)
    assert import_pack(Path()).name == "plain"


def test_a_pack_of_that_name_is_replaced_only_when_asked(write_pack: WritePack, users: Path) -> None:
    import_pack(write_pack(TWO, name="one"), name="mine")
    other = write_pack({"c.acf": b"third"}, name="two")
    with pytest.raises(InputError, match="a pack mine is there already"):
        import_pack(other, name="mine")
    assert below(users / "mine") == ["a.acf", "b.acf"]
    import_pack(other, name="mine", replace=True)
    assert below(users) == ["mine", "mine/c.acf"]


def wrong_hash(folder: Path) -> None:
    (folder / "a.acf").write_bytes(b"FIRST")


def wrong_size(folder: Path) -> None:
    (folder / "a.acf").write_bytes(b"first and more")


def missing(folder: Path) -> None:
    (folder / "b.acf").unlink()


def unlisted(folder: Path) -> None:
    (folder / "c.acf").write_bytes(b"third")


def link_out(folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"first")
    (folder / "a.acf").unlink()
    (folder / "a.acf").symlink_to(folder.parent / "secret")


def notice_out(folder: Path) -> None:
    (folder.parent / "secret").write_bytes(b"secret")
    (folder / "NOTICE").symlink_to(folder.parent / "secret")


def wrong_sums(folder: Path) -> None:
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in TWO.items()]
    (folder / "SHA256SUMS").write_text("".join(sums).replace("b.acf", "c.acf"))


def no_json(folder: Path) -> None:
    (folder / "booster-pack-manifest.json").write_text("{")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (wrong_hash, r"a\.acf: sha256 is"),
        (wrong_size, r"a\.acf: has 14 bytes, listed with 5"),
        (missing, r"b\.acf: listed in booster-pack-manifest\.json, but missing"),
        (unlisted, r"c\.acf: not listed"),
        (link_out, r"a\.acf: a symbolic link that leaves the pack"),
        (notice_out, "NOTICE of the pack cannot be taken: a symbolic link that leaves the pack"),
        (wrong_sums, r"b\.acf: not listed in SHA256SUMS, and 1 more"),
        (no_json, "malformed manifest"),
    ],
)
def test_a_pack_with_a_fault_is_not_taken_at_all(
    write_pack: WritePack, users: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder = write_pack(TWO, manifest={})
    spoil(folder)
    with pytest.raises(InputError, match=message):
        import_pack(folder)
    assert not users.exists()


def hostile(name: str, mode: int = 0o644) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.create_system, member.external_attr = 3, mode << 16
    return member


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (hostile("../../users/packs/evil.acf"), "leaves the pack's folder"),
        (hostile("/tmp/evil.acf"), "absolute"),
        (hostile("link.acf", stat.S_IFLNK | 0o777), "symbolic link"),
    ],
)
def test_a_hostile_zip_writes_nothing(
    tmp_path: Path, users: Path, member: zipfile.ZipInfo, message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.acf", b"first")
        archive.writestr(member, b"/etc/passwd")
    with pytest.raises(InputError, match=message):
        import_pack(tmp_path / "p.zip")
    assert below(tmp_path) == ["p.zip"]


@pytest.mark.parametrize("contents", [{}, {"NOTICE": b"text"}])
def test_a_pack_without_acfs_is_refused(write_pack: WritePack, contents: dict[str, bytes]) -> None:
    with pytest.raises(InputError, match="holds no ACF"):
        import_pack(write_pack(contents))


def test_a_pack_of_another_compiler_is_refused_but_a_mixed_one_is_taken_whole(
    write_pack: WritePack, users: Path
) -> None:
    with pytest.raises(InputError, match="the pack controls nvcc, not ptxas"):
        import_pack(write_pack(TWO, manifest={"controls_stage": "nvcc"}, name="nvcc"))
    acfs = describe(TWO)["acfs"]
    acfs[0]["compiler_stages"], acfs[1]["compiler_stages"] = ["nvcc", "ptxas"], ["ptxas"]
    mixed = write_pack(TWO, manifest={"controls_stage": "both", "acfs": acfs}, name="mixed")
    imported = import_pack(mixed, name="mixed")
    assert [acf.name for acf in imported.pack.accepted] == ["b"]
    assert below(users / "mixed") == ["a.acf", "b.acf", "booster-pack-manifest.json"]


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", ".hidden", "x" * 65, "two words", "ä"])
def test_a_name_that_could_be_a_path_is_refused(write_pack: WritePack, users: Path, name: str) -> None:
    assert not is_pack_name(name)
    with pytest.raises(InputError, match="no name for a pack"):
        import_pack(write_pack(TWO), name=name)
    assert not users.exists()


def test_a_pack_id_that_is_no_name_gives_way_to_the_sources(write_pack: WritePack) -> None:
    assert import_pack(write_pack(TWO, manifest={"pack_id": "../evil"}, name="good")).name == "good"
    with pytest.raises(InputError, match="--as"):
        import_pack(write_pack(TWO, manifest={"pack_id": "two words"}, name="not good"))


class TestFolders:
    def test_the_variable_goes_before_the_data_home_and_that_before_the_home(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert users_folder() == Path(os.environ["HELITUNE_PACK_DIR"])
        monkeypatch.delenv("HELITUNE_PACK_DIR")
        monkeypatch.setenv("XDG_DATA_HOME", "/data")
        assert users_folder() == Path("/data/helitune/packs")
        monkeypatch.setenv("XDG_DATA_HOME", "relative")
        monkeypatch.setenv("HOME", "/home/somebody")
        assert users_folder() == Path("/home/somebody/.local/share/helitune/packs")

    def test_without_a_home_there_are_no_packs_and_none_can_be_imported(
        self, write_pack: WritePack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("HELITUNE_PACK_DIR")
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)

        def no_home() -> Path:
            raise RuntimeError

        monkeypatch.setattr(pack_folders.Path, "home", no_home)
        assert users_packs() == {}
        with pytest.raises(MachineError, match="HELITUNE_PACK_DIR"):
            import_pack(write_pack(TWO))

    def test_a_name_stands_for_a_path_then_the_users_then_the_shipped(
        self, write_pack: WritePack, users: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (users / "h200-seed").mkdir(parents=True)  # put there by hand
        assert resolve_pack("h200-seed") == users / "h200-seed"
        with pytest.raises(InputError, match=r"one of: h200-seed$"):
            resolve_pack("nothing")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "h200-seed").mkdir()
        assert resolve_pack("h200-seed") == Path("h200-seed")

    def test_what_else_lies_there_is_no_pack(self, users: Path) -> None:
        users.mkdir(parents=True)
        (users / "file").touch()
        (users / ".0123456789abcdef.tmp").mkdir()
        assert users_packs() == {}
