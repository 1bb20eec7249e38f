from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from helitune.acfs.errors import InputError
from helitune.acfs.pack import Pack, read_pack, read_packs, resolve_pack, shipped_pack

TWO = {"a.acf": b"first", "b.acf": b"second"}


def read(source: Path, *, version: str = "13.3.73", arch: str = "sm_90", force: bool = False) -> Pack:
    return read_pack(source, ptxas_version=version, arch=arch, force=force)


def accepted(pack: Pack) -> list[str]:
    return [acf.name for acf in pack.accepted]


def refused(pack: Pack) -> dict[str, str]:
    return {refusal.file: refusal.reason for refusal in pack.refused}


def zipped(folder: Path, prefix: str = "") -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, prefix + path.name)
    return target


class TestPlainFolder:
    def test_every_acf_is_accepted_with_its_hash_in_the_order_of_names(self, write_pack):
        pack = read(write_pack({"b.acf": b"second", "a.acf": b"first"}))
        assert [(acf.name, acf.sha256) for acf in pack.accepted] == [
            ("a", hashlib.sha256(b"first").hexdigest()),
            ("b", hashlib.sha256(b"second").hexdigest()),
        ]
        assert [acf.path.read_bytes() for acf in pack.accepted] == [b"first", b"second"]
        assert pack.accepted[0].arch == () and pack.accepted[0].toolkit == ""
        assert (pack.name, pack.refused, pack.notice) == ("pack", (), "")

    def test_each_mistaken_item_is_refused_alone_with_its_reason(self, write_pack):
        folder = write_pack(
            {
                "good.acf": b"good",
                "empty.acf": b"",
                "large.acf": bytes(2**20 + 1),
                "again.acf": b"good",
                "kernel.ptx": b"x",
                "upper.ACF": b"x",
            }
        )
        (folder / "sub.acf").mkdir()
        (folder / "more").mkdir()
        (folder / "more" / "x.acf").write_bytes(b"x")
        os.mkfifo(folder / "pipe.acf")
        pack = read(folder)
        assert accepted(pack) == ["again"]
        assert refused(pack) == {
            "empty.acf": "empty",
            "good.acf": "same content as again.acf",
            "kernel.ptx": "not an .acf file",
            "large.acf": "larger than 1 MiB",
            "more": "a folder with ACFs: give it as a pack of its own",
            "pipe.acf": "not a regular file",
            "sub.acf": "a folder, not a file",
            "upper.ACF": "not an .acf file",
        }
        assert list(refused(pack)) == sorted(refused(pack))

    def test_a_content_of_exactly_1_mib_is_accepted(self, write_pack):
        assert accepted(read(write_pack({"large.acf": bytes(2**20)}))) == ["large"]

    def test_what_usually_lies_beside_the_acfs_is_no_mistake(self, write_pack):
        beside = ["NOTICE", "README", "README.txt", "LICENSE", "about.md", "x.json", ".DS_Store", "._a.acf"]
        folder = write_pack({"a.acf": b"a", **dict.fromkeys(beside, b"text")})
        (folder / "docs").mkdir()
        pack = read(folder)
        assert (accepted(pack), pack.refused, pack.notice) == (["a"], (), "text")

    def test_links_are_followed_inside_the_folder_only(self, write_pack, tmp_path):
        outside = tmp_path / "outside.acf"
        outside.write_bytes(b"secret")
        folder = write_pack({"a.acf": b"a"})
        (folder / "sub").mkdir()
        (folder / "sub" / "content").write_bytes(b"inside")
        (folder / "inside.acf").symlink_to("sub/content")
        (folder / "outside.acf").symlink_to(outside)
        (folder / "dangling.acf").symlink_to("nothing")
        (folder / "loop.acf").symlink_to("loop.acf")
        pack = read(folder)
        assert accepted(pack) == ["a", "inside"]
        assert refused(pack)["outside.acf"] == "a symbolic link that leaves the pack"
        assert refused(pack)["dangling.acf"].startswith("unreadable")
        assert refused(pack)["loop.acf"].startswith("unreadable")

    def test_a_pack_reached_by_a_link_is_read(self, write_pack, tmp_path):
        (tmp_path / "link").symlink_to(write_pack(TWO))
        assert accepted(read(tmp_path / "link")) == ["a", "b"]

    def test_an_unreadable_file_is_refused_and_the_rest_goes_on(self, users_folder):
        (users_folder / "a.acf").write_bytes(b"a")
        (users_folder / "b.acf").write_bytes(b"b")
        (users_folder / "b.acf").chmod(0)
        pack = read(users_folder)
        assert accepted(pack) == ["a"]
        assert refused(pack) == {"b.acf": "unreadable: Permission denied"}

    def test_undecodable_and_multi_line_names_are_shown_on_one_line(self, tmp_path):
        for name in (b"\xff.acf", b"two\nlines.acf", b"empty\n.acf"):
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(
                b"" if name.startswith(b"empty") else name
            )
        pack = read(tmp_path)
        assert sorted(accepted(pack)) == ["\\udcff", "two\\nlines"]
        assert refused(pack) == {"empty\\n.acf": "empty"}

    def test_an_empty_folder_has_nothing_and_is_no_error(self, write_pack):
        pack = read(write_pack({}))
        assert (pack.accepted, pack.refused) == ((), ())

    def test_a_folder_of_thousands_of_files_is_not_a_pack(self, tmp_path):
        for number in range(4097):
            (tmp_path / f"{number}").touch()
        with pytest.raises(InputError, match="more than 4096 files"):
            read(tmp_path)


class TestSource:
    def test_missing(self, tmp_path):
        with pytest.raises(InputError, match=re.escape(f"no pack at {tmp_path}/none: No such file")):
            read(tmp_path / "none")

    def test_neither_folder_nor_zip(self, write_pack):
        with pytest.raises(InputError, match=r"a\.acf is neither a folder nor a \.zip file"):
            read(write_pack(TWO) / "a.acf")

    def test_unreadable(self, users_folder):
        pack = users_folder / "pack"
        pack.mkdir(mode=0)
        with pytest.raises(InputError, match=r"cannot read the pack .*/pack: Permission denied"):
            read(pack)


class TestManifest:
    def test_a_matching_pack_is_accepted_with_what_it_was_made_for(self, write_pack):
        pack = read(
            write_pack(TWO, manifest={"cuda_version": "13.3.1", "supported_gpus": ["sm_90", "sm_100"]})
        )
        assert (pack.name, accepted(pack), pack.refused) == ("test-pack", ["a", "b"], ())
        assert pack.accepted[0].toolkit == "13.3"
        assert pack.accepted[0].arch == ("sm_90", "sm_100")

    @pytest.mark.parametrize(
        ("version", "arch", "reasons"),
        [
            ("13.4.92", "sm_90", ["CUDA 13.3", "ptxas is 13.4.92"]),
            ("13.30.1", "sm_90", ["CUDA 13.3", "ptxas is 13.30.1"]),
            ("13.3.73", "sm_100", ["for sm_90", "not for sm_100"]),
            ("13.3.73", "sm_90a", ["for sm_90", "not for sm_90a"]),
            ("13.5.37", "sm_100", ["CUDA 13.3", "13.5.37", "sm_90", "sm_100"]),
        ],
    )
    def test_a_pack_for_another_target_is_refused_whole_unless_forced(
        self, write_pack, version, arch, reasons
    ):
        folder = write_pack(TWO, manifest={})
        pack = read(folder, version=version, arch=arch)
        assert pack.accepted == ()
        assert sorted(refused(pack)) == ["a.acf", "b.acf"]
        assert all(reason in refused(pack)["a.acf"] for reason in reasons)
        assert accepted(read(folder, version=version, arch=arch, force=True)) == ["a", "b"]

    def test_controls_of_another_compiler_are_refused_even_when_forced(self, write_pack):
        folder = write_pack(TWO, manifest={"controls_stage": "nvvm"})
        assert refused(read(folder, force=True))["a.acf"] == "the pack controls nvvm, not ptxas"

    def test_files_that_differ_from_the_manifest_are_refused_one_by_one_even_when_forced(self, write_pack):
        folder = write_pack({**TWO, "c.acf": b"third", "gone.acf": b"gone"}, manifest={})
        (folder / "a.acf").write_bytes(b"FIRST")
        (folder / "b.acf").write_bytes(b"longer than it was")
        (folder / "gone.acf").unlink()
        (folder / "new.acf").write_bytes(b"new")
        (folder / "new.txt").write_bytes(b"new")
        pack = read(folder, force=True)
        assert accepted(pack) == ["c"]
        reasons = refused(pack)
        assert re.fullmatch(r"sha256 is \w{16}\.\.\., listed with \w{16}\.\.\.", reasons.pop("a.acf"))
        assert reasons == {
            "b.acf": "has 18 bytes, listed with 6",
            "gone.acf": "listed in booster-pack-manifest.json, but missing",
            "new.acf": "not listed in booster-pack-manifest.json",
            "new.txt": "not an .acf file",
        }

    @pytest.mark.parametrize(
        "name", ["../a.acf", "/etc/a.acf", "sub/a.acf", "C:a.acf", "..\\a.acf", "", "\0"]
    )
    def test_a_listed_path_is_refused_and_not_read(self, write_pack, name):
        entry = {"filename": name, "sha256": "0" * 64, "size_bytes": 1}
        pack = read(write_pack({}, manifest={"acfs": [entry]}))
        assert [refusal.reason for refusal in pack.refused] == [
            "booster-pack-manifest.json names a path, not a file of the pack"
        ]

    def test_a_file_listed_twice_is_taken_once(self, write_pack):
        entry = {"filename": "a.acf", "sha256": hashlib.sha256(b"first").hexdigest(), "size_bytes": 5}
        pack = read(write_pack({"a.acf": b"first"}, manifest={"acfs": [entry, entry]}))
        assert accepted(pack) == ["a"]
        assert refused(pack) == {"a.acf": "listed twice in booster-pack-manifest.json"}

    def test_a_listed_file_of_another_kind_is_refused(self, write_pack):
        pack = read(write_pack({"README": b"text"}, manifest={}))
        assert refused(pack) == {"README": "listed in booster-pack-manifest.json, but not an .acf file"}


class TestSums:
    def test_the_listed_hashes_are_checked(self, write_pack):
        folder = write_pack({**TWO, "c.acf": b"third", "new.acf": b"new"})
        lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in TWO.items()]
        lines += [f"{'0' * 64} *c.acf\n", f"{'0' * 64}  README\n", f"{'1' * 64}  ./gone.acf\n"]
        (folder / "SHA256SUMS").write_text("".join(lines))
        pack = read(folder)
        assert accepted(pack) == ["a", "b"]
        assert refused(pack)["c.acf"].startswith("sha256 is ")
        assert refused(pack)["gone.acf"] == "listed in SHA256SUMS, but missing"
        assert refused(pack)["new.acf"] == "not listed in SHA256SUMS"

    @pytest.mark.parametrize("line", [b"what is this", b"0123  a.acf", b"\xff\xfe"])
    def test_a_malformed_line_is_named(self, write_pack, line):
        folder = write_pack(TWO)
        (folder / "SHA256SUMS").write_bytes(b"\n" + line)
        with pytest.raises(InputError, match="SHA256SUMS"):
            read(folder)


class TestZip:
    @pytest.fixture(autouse=True)
    def _unpacked_here(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @pytest.mark.parametrize("prefix", ["", "h200/"])
    def test_a_zip_reads_as_its_folder_does(self, write_pack, prefix):
        folder = write_pack({**TWO, "NOTICE": b"mine", "odd.txt": b"x"})
        pack = read(zipped(folder, prefix))
        assert [(acf.name, acf.path.read_bytes()) for acf in pack.accepted] == [
            ("a", b"first"),
            ("b", b"second"),
        ]
        assert (pack.name, pack.notice, refused(pack)) == ("pack", "mine", {"odd.txt": "not an .acf file"})

    def test_its_manifest_is_binding(self, write_pack):
        pack = read(zipped(write_pack(TWO, manifest={"supported_gpus": ["sm_100"]})))
        assert (pack.name, pack.accepted, len(pack.refused)) == ("test-pack", (), 2)

    def test_what_was_unpacked_is_gone_when_the_process_has_ended(self, write_pack, tmp_path):
        code = (
            "import sys; from pathlib import Path; from helitune.acfs.pack import read_pack\n"
            "pack = read_pack(Path(sys.argv[1]), ptxas_version='13.3.73', arch='sm_90')\n"
            "print(pack.accepted[0].path.read_text(), pack.accepted[0].path)"
        )
        command = [sys.executable, "-c", code, str(zipped(write_pack(TWO)))]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        content, path = done.stdout.split()
        assert content == "first"
        assert Path(path).is_relative_to(tmp_path)
        assert not Path(path).parent.exists()


class TestSeveral:
    def test_a_content_is_taken_from_the_first_pack_that_has_it(self, write_pack):
        sources = [
            write_pack(TWO, name="one"),
            write_pack({"z.acf": b"first", "c.acf": b"third"}, name="two"),
        ]
        acfs, packs = read_packs(sources, ptxas_version="13.3.73", arch="sm_90")
        assert [acf.name for acf in acfs] == ["a", "b", "c"]
        assert [len(pack.accepted) for pack in packs] == [2, 1]
        assert refused(packs[1]) == {"z.acf": "same content as a.acf of one"}

    def test_none(self):
        assert read_packs([], ptxas_version="13.3.73", arch="sm_90") == ((), ())


class TestShipped:
    def test_it_fits_its_own_manifest(self):
        pack = read(shipped_pack())
        assert (pack.name, len(pack.accepted), pack.refused) == ("h200-seed", 27, ())
        assert "CompileIQ" in pack.notice

    def test_a_name_is_resolved_and_an_existing_path_goes_first(self, tmp_path, monkeypatch):
        assert resolve_pack("h200-seed") == shipped_pack("h200-seed")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "h200-seed").mkdir()
        assert resolve_pack("h200-seed") == Path("h200-seed")

    @pytest.mark.parametrize("text", ["h300-seed", "", "x" * 5000, "\0", "../data/h200-seed"])
    def test_anything_else_is_an_error_that_lists_the_shipped(self, text):
        with pytest.raises(InputError, match=r"h200-seed$"):
            resolve_pack(text)
