from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from helitune.acfs.errors import MachineError
from helitune.acfs.paths import atomic_write, cache_root


@pytest.fixture
def environment(tmp_path, monkeypatch):
    monkeypatch.delenv("HELITUNE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return monkeypatch


class TestCacheRoot:
    def test_the_users_own_choice_comes_first_and_is_not_touched(self, environment, tmp_path):
        environment.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        environment.setenv("HELITUNE_CACHE_DIR", str(tmp_path / "mine"))
        assert cache_root() == tmp_path / "mine"
        assert not (tmp_path / "mine").exists()

    def test_a_relative_choice_is_made_absolute(self, environment, tmp_path):
        environment.chdir(tmp_path)
        environment.setenv("HELITUNE_CACHE_DIR", "mine")
        assert cache_root() == tmp_path / "mine"

    def test_then_xdg_then_home(self, environment, tmp_path):
        environment.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_root() == tmp_path / "xdg" / "helitune"
        environment.setenv("XDG_CACHE_HOME", "relative")
        assert cache_root() == tmp_path / "home" / ".cache" / "helitune"

    def test_a_home_that_cannot_be_made_gives_a_private_temporary_folder(self, environment, tmp_path):
        (tmp_path / "home").touch()
        assert cache_root() == tmp_path / f"helitune-{os.geteuid()}"
        assert stat.S_IMODE(cache_root().stat().st_mode) == 0o700

    def test_a_read_only_home_gives_a_temporary_folder(self, users_folder, environment):
        home = users_folder / "home"
        home.mkdir(mode=0o500)
        environment.setenv("HOME", str(home))
        environment.setattr(tempfile, "tempdir", str(users_folder))
        assert cache_root().parent == users_folder

    def test_no_home_at_all(self):
        if os.geteuid() != 0:
            pytest.skip("only root can become a user without an entry in the password database")
        # all imports first: that user may be unable to read the standard library
        imports = "import os, pwd; from helitune.acfs.paths import cache_root"
        code = f"{imports}; os.setuid(54321); print(cache_root())"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o777)
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, env={"TMPDIR": folder}, capture_output=True, text=True, timeout=60)
            assert done.stdout.strip() == f"{folder}/helitune-54321", done.stderr

    def test_a_temporary_folder_that_leads_elsewhere_is_refused(self, environment, tmp_path):
        (tmp_path / "home").touch()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / f"helitune-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(MachineError, match=r"another user.*HELITUNE_CACHE_DIR"):
            cache_root()


class TestAtomicWrite:
    def test_it_writes_replaces_and_leaves_nothing_else(self, tmp_path):
        path = tmp_path / "new" / "file"
        atomic_write(path, b"first")
        atomic_write(path, b"second")
        assert path.read_bytes() == b"second"
        assert list(path.parent.iterdir()) == [path]

    def test_the_file_has_the_usual_permissions(self, tmp_path):
        (tmp_path / "usual").touch()
        atomic_write(tmp_path / "file", b"")
        assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_a_target_that_cannot_be_replaced_is_a_machine_error_with_the_next_step(self, tmp_path):
        (tmp_path / "folder").mkdir()
        with pytest.raises(MachineError, match=r"cannot write .*folder: .*; do this"):
            atomic_write(tmp_path / "folder", b"x", next_step="do this")
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]

    def test_the_old_content_stays_when_the_write_fails(self, users_folder):
        atomic_write(users_folder / "file", b"old")
        users_folder.chmod(0o500)
        with pytest.raises(MachineError, match="Permission denied"):
            atomic_write(users_folder / "file", b"new")
        assert (users_folder / "file").read_bytes() == b"old"
