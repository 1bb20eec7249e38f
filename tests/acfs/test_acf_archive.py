from __future__ import annotations

import io
import stat
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helitune.acfs.archive import unpack
from helitune.acfs.content import shown
from helitune.acfs.errors import InputError, MachineError


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "outer" / "into"
    folder.mkdir(parents=True)
    return folder


def write_zip(path: Path, members: list[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return path


def special(name: str, mode: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.create_system = 3  # Unix: the mode is in the upper half of external_attr
    member.external_attr = mode << 16
    return member


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_and_folders_arrive(tmp_path, into):
    members = [
        ("./", b""),
        ("pack/", b""),
        ("pack/a.acf", b"first"),
        ("pack/sub/b.acf", b""),
        ("x.acf/", b""),
    ]
    unpack(write_zip(tmp_path / "p.zip", members), into)
    assert below(into) == ["pack", "pack/a.acf", "pack/sub", "pack/sub/b.acf", "x.acf"]
    assert (into / "pack/a.acf").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../evil.acf", "leaves the pack"),
        ("sub/../../evil.acf", "leaves the pack"),
        ("..", "leaves the pack"),
        ("/evil.acf", "absolute"),
        ("C:evil.acf", "absolute or foreign"),
        ("c:/evil.acf", "absolute or foreign"),
        ("..\\evil.acf", "absolute or foreign"),
        ("two\nlines.acf", "unusable name"),
        ("x" * 256, "unusable name"),
        (special("link.acf", stat.S_IFLNK | 0o777), "symbolic link"),
        (special("pipe.acf", stat.S_IFIFO | 0o644), "not a regular file"),
    ],
)
def test_a_hostile_member_is_refused_by_name_and_nothing_of_it_is_written(tmp_path, into, name, reason):
    archive = write_zip(tmp_path / "p.zip", [(name, b"/etc/passwd")])
    with pytest.raises(InputError, match=reason) as caught:
        unpack(archive, into)
    assert f"member {shown(name if isinstance(name, str) else name.filename)} " in caught.value.what
    assert below(tmp_path) == ["outer", "outer/into", "p.zip"]


def test_a_name_that_hides_its_end_behind_a_nul_is_refused(tmp_path, into):
    archive = write_zip(tmp_path / "p.zip", [("a.acf_.txt", b"x")])
    archive.write_bytes(archive.read_bytes().replace(b"a.acf_.txt", b"a.acf\0.txt"))
    with pytest.raises(InputError, match="unusable name"):
        unpack(archive, into)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["a.acf", "./a.acf", "a.acf/", "a.acf/b.acf"])
def test_two_members_for_one_path_are_refused(tmp_path, into, second):
    archive = write_zip(tmp_path / "p.zip", [("a.acf", b"1"), (second, b"")])
    with pytest.raises(InputError, match="there twice"):
        unpack(archive, into)


def test_an_encrypted_member_is_refused(tmp_path, into):
    archive = write_zip(tmp_path / "p.zip", [("a.acf", b"1")])
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.acf is encrypted"):
        unpack(archive, into)


def test_other_compressions_are_refused(tmp_path, into):
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.acf", b"1")
    with pytest.raises(InputError, match=r"a\.acf is compressed by a method other than deflate"):
        unpack(tmp_path / "p.zip", into)


def test_too_many_members_are_refused(tmp_path, into):
    write_zip(tmp_path / "p.zip", [(f"{number}.acf", b"") for number in range(4097)])
    with pytest.raises(InputError, match="more than 4096 members"):
        unpack(tmp_path / "p.zip", into)
    assert below(into) == []


def test_too_much_in_all_is_refused(tmp_path, into):
    write_zip(tmp_path / "p.zip", [(f"{number:02}.acf", bytes(2**20)) for number in range(65)])
    with pytest.raises(InputError, match=r"64\.acf exceeds 64 MiB in all"):
        unpack(tmp_path / "p.zip", into)


@pytest.mark.parametrize("said", [None, 100], ids=["told", "hidden"])
def test_gigabytes_of_zeros_are_refused_quickly_in_little_memory(tmp_path, into, zeros_10_gb, said):
    archive = tmp_path / "p.zip"
    archive.write_bytes(zeros_10_gb(said))
    tracemalloc.start()
    start = time.monotonic()
    with pytest.raises(InputError, match=r"zeros\.acf is (larger than 1 MiB|damaged)"):
        unpack(archive, into)
    elapsed_s = time.monotonic() - start
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert elapsed_s < 2
    assert peak_bytes < 32 << 20
    assert below(into) == []


@pytest.fixture(scope="module")
def zeros_10_gb():
    """A real zip of 10 GB of zeros in 10 MB; with `said`, its headers claim that many bytes."""
    import zlib

    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    # a stretch between two full flushes stands alone and can be repeated
    head = compressor.compress(bytes(1 << 24)) + compressor.flush(zlib.Z_FULL_FLUSH)
    middle = compressor.compress(bytes(1 << 24)) + compressor.flush(zlib.Z_FULL_FLUSH)
    body = head + middle * 600 + compressor.flush()
    size = 601 << 24

    def build(said: int | None) -> bytes:
        shown_size = min(said if said is not None else size, 0xFFFFFFFF - 1)
        name = b"zeros.acf"
        sizes = struct.pack("<LLL", 0, len(body), shown_size)
        local = (
            b"PK\3\4" + struct.pack("<5H", 20, 0, 8, 0, 0) + sizes + struct.pack("<HH", len(name), 0) + name
        )
        central = (
            b"PK\1\2"
            + struct.pack("<6H", 20, 20, 0, 8, 0, 0)
            + sizes
            + struct.pack("<5HLL", 9, 0, 0, 0, 0, 0, 0)
        )
        offset = len(local) + len(body)
        end = b"PK\5\6" + struct.pack("<4HLLH", 0, 0, 1, 1, len(central) + 9, offset, 0)
        return local + body + central + name + end

    return build


def test_a_huge_directory_is_not_read_whole(tmp_path, into):
    entry = b"PK\1\2" + bytes(42)
    directory = entry * 300_000  # 13 MB of members without a name
    end = b"PK\5\6" + struct.pack("<4HLLH", 0, 0, 65535, 65535, len(directory), 0, 0)
    (tmp_path / "p.zip").write_bytes(directory + end)
    with pytest.raises(InputError, match="Truncated central directory"):
        unpack(tmp_path / "p.zip", into)


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"no zip at all", b"PK\5\6" + bytes(17)])
def test_what_is_no_zip_is_an_input_error(tmp_path, into, content):
    (tmp_path / "p.zip").write_bytes(content)
    with pytest.raises(InputError, match="is no sound zip file"):
        unpack(tmp_path / "p.zip", into)


def test_a_damaged_member_is_named(tmp_path, into):
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.acf", b"content")
    damaged = (tmp_path / "p.zip").read_bytes().replace(b"content", b"CONTENT")
    (tmp_path / "p.zip").write_bytes(damaged)
    with pytest.raises(InputError, match=r"a\.acf is damaged: Bad CRC-32"):
        unpack(tmp_path / "p.zip", into)


def test_a_folder_that_cannot_be_written_is_the_machines_fault(users_folder):
    write_zip(users_folder / "p.zip", [("a.acf", b"1")])
    (users_folder / "into").mkdir(mode=0o500)
    with pytest.raises(MachineError, match=r"cannot unpack .*Permission denied.*TMPDIR"):
        unpack(users_folder / "p.zip", users_folder / "into")


def sound_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pack/a.acf", b"first" * 20)
        archive.writestr("pack/b.acf", b"second")
        archive.writestr("NOTICE", b"text")
    return buffer.getvalue()


SOUND = sound_zip()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(SOUND)),
)
def test_no_damage_makes_a_traceback_or_a_file_elsewhere(patches: list[tuple[int, int]], cut: int):
    content = bytearray(SOUND)
    for position, value in patches:
        content[position] = value
    with TemporaryDirectory() as parent:
        archive = Path(parent) / "p.zip"
        archive.write_bytes(content if cut % 2 else content[:cut])
        into = Path(parent) / "into"
        into.mkdir()
        try:
            unpack(archive, into)
        except InputError as error:
            assert error.where == str(archive)
        assert {path.name for path in Path(parent).iterdir()} == {"p.zip", "into"}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["..", ".", "", "a", "b.acf"]), max_size=4).map("/".join).filter(bool),
        max_size=4,
    )
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_names_leave_the_folder(names: list[str]):
    with TemporaryDirectory() as parent:
        into = Path(parent) / "x" / "y" / "into"
        into.mkdir(parents=True)
        archive = write_zip(Path(parent) / "p.zip", [(name, b"1") for name in names])
        try:
            unpack(archive, into)
        except InputError:
            pass
        outside = [path for path in Path(parent).rglob("*") if not path.is_relative_to(into)]
        assert sorted(path.name for path in outside) == ["p.zip", "x", "y"]
