"""`helitune acf` on real packs, with the real ptxas: what it prints, what it writes, how it exits."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from helitune_cli import EXAMPLES, helitune

from helitune.acfs.errors import UserError
from helitune.acfs.pack import inspect_pack, read_pack, resolve_pack, shipped_pack
from helitune.cli.app import app
from helitune.results.run_directory import RunDirectory

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "runs" / "format1"
SEED = shipped_pack()
ACFS = [path.name for path in sorted(SEED.glob("*.acf"))]
MANIFEST = "booster-pack-manifest.json"
WITH_ACF = "b5a7dcb646f6ab38"
"""A trial of the run in FORMAT_1 that compiled with the first of the shipped ACFs."""

STORE_ONE = """.version 8.8
.target sm_90
.address_size 64
.visible .entry store_one(.param .u64 out)
{
  .reg .b64 %a<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %a1, [out];
  cvta.to.global.u64 %a2, %a1;
  mov.u32 %r1, %tid.x;
  st.global.u32 [%a2], %r1;
  ret;
}
"""


class Acf:
    """`helitune acf` in this process: the exit code, what it printed, and the error's line."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.error = ""

    def __call__(self, *arguments: str | Path) -> tuple[int, str]:
        self.error = ""
        status = 0
        try:
            typer.main.get_command(app).main(["acf", *map(str, arguments)], standalone_mode=False)
        except UserError as error:
            status, self.error = error.exit_code, error.line()
        return status, self._capsys.readouterr().out

    def json(self, *arguments: str | Path) -> tuple[int, Any]:
        """The exit code and the object that --json prints, which is all of it."""
        status, printed = self(*arguments, "--json")
        return status, json.loads(printed)


@pytest.fixture
def acf(capsys: pytest.CaptureFixture[str]) -> Acf:
    return Acf(capsys)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with no packs of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HELITUNE_PACK_DIR", str(tmp_path / "users"))
    return tmp_path


@pytest.fixture
def seed(here: Path) -> Path:
    """A copy of the shipped pack that can be spoilt."""
    shutil.copytree(SEED, here / "seed")
    return here / "seed"


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    edit(document)
    (folder / MANIFEST).write_text(json.dumps(document))


class TestList:
    def test_the_shipped_packs_with_what_their_manifests_say(self, acf: Acf) -> None:
        status, printed = acf("list")
        assert status == 0
        assert "h200-seed: 27 ACFs for CUDA 13.3, sm_90" in printed
        line = next(line for line in printed.splitlines() if "0396b5f22daf1368" in line)
        assert "2384 B" in line and "1.0249x" in line

    def test_refused_files_are_listed_with_the_reason(self, acf: Acf, seed: Path) -> None:
        (seed / ACFS[0]).write_bytes(b"")
        assert f"refused {ACFS[0]}: empty" in acf("list", seed)[1]

    def test_as_json(self, acf: Acf, seed: Path) -> None:
        (seed / "odd.txt").touch()
        status, listed = acf.json("list", seed, "h200-seed")
        assert status == 0 and [pack["name"] for pack in listed["packs"]] == ["h200-seed"] * 2
        first = listed["packs"][0]
        assert first["refused"] == [{"file": "odd.txt", "reason": "not an .acf file", "fault": False}]
        assert first["acfs"][0] == {
            "name": Path(ACFS[0]).stem,
            "sha256": inspect_pack(SEED).accepted[0].sha256,
            "size_bytes": (SEED / ACFS[0]).stat().st_size,
            "arch": ["sm_90"],
            "toolkit": "13.3",
            "says": "",
        }

    def test_an_unknown_pack_is_wrong_input(self, acf: Acf) -> None:
        assert acf("list", "nothing")[0] == 2
        assert "h200-seed" in acf.error


class TestVerify:
    def test_a_sound_pack(self, acf: Acf) -> None:
        status, printed = acf("verify", "h200-seed")
        assert status == 0
        assert "sound: 27 ACFs" in printed and "ptxas 13.3" in printed and "for sm_90" in printed
        assert acf("verify", "h200-seed", "--quiet") == (0, "")

    def test_each_fault_has_a_line(self, acf: Acf, seed: Path) -> None:
        (seed / ACFS[0]).write_bytes(b"changed")
        (seed / ACFS[1]).unlink()
        (seed / "new.acf").write_bytes(b"new")
        status, printed = acf("verify", seed, "--no-ptxas")
        assert status == 2
        lines = printed.splitlines()
        assert [line.split(": ")[1] for line in lines] == [*ACFS[:2], "new.acf"]
        assert (
            "has 7 bytes, listed with 2320" in lines[0] and "missing" in lines[1] and "not listed" in lines[2]
        )
        assert "3 fault(s) in 1 of 1 pack(s)" in acf.error

    def test_an_acf_that_ptxas_does_not_take_is_a_fault_though_its_hash_is_right(
        self, acf: Acf, here: Path
    ) -> None:
        (here / "plain").mkdir()
        shutil.copy(SEED / ACFS[0], here / "plain")
        (here / "plain" / "random.acf").write_bytes(bytes(range(256)))
        assert acf("verify", "plain", "--no-ptxas")[0] == 0
        status, printed = acf("verify", "plain")
        assert status == 2
        assert "random.acf: ptxas 13.3.73 does not take it" in printed and "made for another ptxas" in printed

    def test_a_pack_for_another_ptxas_is_sound_but_nothing_for_this_machine(
        self, acf: Acf, seed: Path
    ) -> None:
        edit_manifest(seed, lambda document: document.update(cuda_version="13.10.0"))
        status, printed = acf("verify", seed)
        assert status == 3
        assert "the pack is for CUDA 13.10.0, this ptxas is 13.3.73: not tried" in printed
        assert acf("verify", seed, "--no-ptxas")[0] == 0

    def test_a_fault_counts_more_than_a_ptxas_that_is_missing(self, acf: Acf, seed: Path) -> None:
        assert acf("verify", seed, "--ptxas", "none")[0] == 3
        assert "no ptxas at" in acf.error
        (seed / ACFS[0]).unlink()
        assert acf("verify", seed, "--ptxas", "none")[0] == 2

    @pytest.mark.parametrize("content", [b"{", b'{"acfs": []}', b""])
    def test_a_pack_that_cannot_be_read_does_not_keep_the_others_from_it(
        self, acf: Acf, seed: Path, content: bytes
    ) -> None:
        (seed / MANIFEST).write_bytes(content)
        status, answer = acf.json("verify", seed, "h200-seed", "--no-ptxas")
        assert (status, answer["exit_code"]) == (2, 2)
        assert [len(pack["faults"]) for pack in answer["packs"]] == [1, 0]
        assert "malformed manifest" in answer["packs"][0]["faults"][0]["reason"]
        assert "1 fault(s) in 1 of 2" in answer["error"]["what"]

    def test_a_hostile_zip_is_a_fault(self, acf: Acf, here: Path) -> None:
        with zipfile.ZipFile(here / "evil.zip", "w") as archive:
            archive.writestr("../evil.acf", b"x")
        status, printed = acf("verify", "evil.zip")
        assert status == 2 and "member ../evil.acf leaves the pack's folder" in printed


class TestImport:
    def test_afterwards_the_name_is_known(self, acf: Acf, seed: Path, here: Path) -> None:
        with zipfile.ZipFile(here / "some.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in seed.iterdir():
                archive.write(path, f"seed/{path.name}")
        status, printed = acf("import", "some.zip", "--as", "mine")
        assert status == 0
        assert "mine: 27 ACFs" in printed and "NVIDIA" in printed and "--acf-pack mine" in printed
        assert f"({here / 'users' / 'mine'})" in acf("list", "mine")[1]
        assert acf("import", "some.zip", "--as", "mine")[0] == 2
        assert "--replace" in acf.error
        assert acf("import", "some.zip", "--as", "mine", "--replace", "-q") == (0, f"{here}/users/mine\n")

    def test_a_pack_with_a_fault_is_not_taken(self, acf: Acf, seed: Path, here: Path) -> None:
        (seed / ACFS[0]).write_bytes(b"changed")
        assert acf("import", seed, "--as", "mine")[0] == 2
        assert ACFS[0] in acf.error and not (here / "users").exists()

    def test_a_release_is_taken_pack_by_pack(self, acf: Acf, here: Path) -> None:
        release = here / "release"
        release.mkdir()
        packs = []
        for number in (1, 2):
            path = release / f"pack{number}.zip"
            with zipfile.ZipFile(path, "w") as archive:
                archive.write(SEED / ACFS[number], f"pack{number}/{ACFS[number]}")
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            size = path.stat().st_size
            packs.append({"artifact_name": path.name, "artifact_sha256": sha256, "artifact_size_bytes": size})
        (release / "booster-pack-catalog.json").write_text(json.dumps({"packs": packs}))
        assert acf("verify", release)[0] == 0
        assert acf("import", release, "--as", "one")[0] == 2
        status, answer = acf.json("import", release)
        assert status == 0 and [one["name"] for one in answer["imported"]] == ["pack1", "pack2"]
        (release / "pack1.zip").write_bytes(b"")
        status, printed = acf("verify", release)
        assert status == 2 and "pack1.zip: has 0 bytes, listed in booster-pack-catalog.json" in printed


@pytest.fixture
def run(here: Path) -> RunDirectory:
    """A run that was really made, with the ACF that some of its trials used."""
    path = here / ".helitune" / "runs" / "20261129-200308-0001"
    shutil.copytree(FORMAT_1, path)
    (path / "acfs").mkdir()
    for acf in inspect_pack(SEED).accepted[:2]:
        assert acf.path is not None
        shutil.copy(acf.path, path / "acfs" / f"{acf.sha256}.acf")
    return RunDirectory(path)


def judge(run: RunDirectory, status: str = "FASTER") -> None:
    """Let run.json say that the trial with an ACF was validated."""
    verdict = {"trial": WITH_ACF, "shape": 0, "status": status, "gate": "strict", "speedup": 1.0255}
    run.write_run({**run.run(), "verdicts": [verdict]})


class TestBuild:
    def test_a_validated_winner_becomes_a_pack_that_verifies_and_can_be_searched(
        self, acf: Acf, run: RunDirectory, here: Path
    ) -> None:
        judge(run)
        status, printed = acf("build", "-o", "out", run.id)
        assert status == 0
        assert f"out: 1 ACFs for CUDA 13.3, sm_90 ({here / 'out'})" in printed
        assert "row_softmax f16[256,2560] 1.0 on sm_90: FASTER, 1.0255x" in printed
        assert acf("verify", "out")[0] == 0
        (found,) = read_pack(resolve_pack("out"), ptxas_version="13.3.73", arch="sm_90").accepted
        assert found.sha256[:16] == Path(ACFS[0]).stem
        assert sorted(path.name for path in (here / "out").iterdir()) == sorted(
            [ACFS[0], "NOTICE", "SHA256SUMS", MANIFEST]
        )
        assert "CompileIQ" in (here / "out" / "NOTICE").read_text()
        (entry,) = json.loads((here / "out" / MANIFEST).read_text())["acfs"]
        (provenance,) = entry["provenance"]
        assert (
            provenance["run"]["id"] == run.id and provenance["fingerprint"]["packages"]["triton"] == "3.9.0"
        )

    def test_the_same_bytes_of_several_runs_are_one_file(
        self, acf: Acf, run: RunDirectory, here: Path
    ) -> None:
        judge(run)
        shutil.copytree(run.path, here / "other")
        status, built = acf.json("build", "-o", "out", run.path, "other")
        assert status == 0 and [one["file"] for one in built["acfs"]] == [ACFS[0]]
        assert [one["run"]["id"] for one in built["acfs"][0]["provenance"]] == [run.id, "other"]

    def test_without_a_winner_it_is_a_negative_verdict_and_nothing_is_written(
        self, acf: Acf, run: RunDirectory, here: Path
    ) -> None:
        judge(run, "SLOWER")
        status, answer = acf.json("build", "-o", "out", run.id)
        assert (status, answer["exit_code"]) == (1, 1)
        assert answer["refused"][0]["reason"] == "its verdict is SLOWER, not FASTER"
        assert not (here / "out").exists()

    def test_what_is_ambiguous_is_taken_when_asked_and_marked(
        self, acf: Acf, run: RunDirectory, here: Path
    ) -> None:
        judge(run, "AMBIGUOUS")
        assert acf("build", "-o", "out", run.id)[0] == 1
        assert acf("build", "-o", "out", run.id, "--allow", "ambiguous")[0] == 0
        document = json.loads((here / "out" / MANIFEST).read_text())
        assert document["validation_summary"]["status"] == "pending"
        assert document["acfs"][0]["provenance"][0]["status"] == "AMBIGUOUS"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["-o", "out", "--allow", "slower"], "choose from ambiguous, compiled"),
            (["-o", "two words"], "--name"),
            (["-o", "out", "--name", "../up"], "--name"),
            (["-o", "."], "there is something already"),
        ],
    )
    def test_wrong_options(self, acf: Acf, run: RunDirectory, options: list[str], message: str) -> None:
        judge(run)
        named = options if options[1] != "." else [*options, "--name", "here"]
        assert acf("build", run.id, *named)[0] == 2
        assert message in acf.error


class TestDiff:
    def test_by_bytes_whatever_the_names(self, acf: Acf, seed: Path) -> None:
        (seed / MANIFEST).unlink()
        (seed / ACFS[0]).unlink()
        (seed / ACFS[1]).rename(seed / "renamed.acf")
        (seed / "new.acf").write_bytes(b"new")
        status, found = acf.json("diff", "h200-seed", seed)
        assert status == 0 and found["effects"] is None
        names = {where: [one["name"] for one in found[where]] for where in ("only_a", "only_b", "both")}
        assert names == {
            "only_a": [Path(ACFS[0]).stem],
            "only_b": ["new"],
            "both": [Path(name).stem for name in ACFS[1:]],
        }
        printed = acf("diff", "h200-seed", seed, "-q")[1]
        assert printed == f"only in h200-seed: 1\nonly in {seed}: 1\nin both, by bytes: 26\n"

    @pytest.mark.slow
    def test_by_their_effect_on_a_ptx(self, acf: Acf, seed: Path, here: Path) -> None:
        (here / "store.ptx").write_text(STORE_ONE)
        (seed / MANIFEST).unlink()
        content = bytearray((seed / ACFS[0]).read_bytes())
        content[-1] ^= 1
        (seed / ACFS[0]).write_bytes(content)
        status, found = acf.json("diff", "h200-seed", seed, "--ptx", "store.ptx")
        effects = found["effects"]
        assert status == 0 and "ptxas 13.3.73" in effects["on"]
        assert effects["none"] and max(map(len, effects["identical"])) > 1
        assert [(one["in"], one["name"]) for one in effects["failed"]] == [("B", Path(ACFS[0]).stem)]
        printed = acf("diff", "h200-seed", seed, "--ptx", "store.ptx")[1]
        assert "Invalid compiler controls file" in printed and f"{Path(ACFS[0]).stem}(A)" in printed

    @pytest.mark.slow
    def test_by_their_effect_on_a_kernel(self, acf: Acf, here: Path) -> None:
        (here / "few").mkdir()
        shutil.copy(SEED / ACFS[0], here / "few" / "first.acf")
        shutil.copy(SEED / ACFS[1], here / "few" / "second.acf")
        status, found = acf.json(
            "diff", "few", "few", "--kernel", EXAMPLES / "softmax.py", "--args", "f16[64,512]"
        )
        effects = found["effects"]
        assert status == 0 and "softmax.py for sm_90" in effects["on"]
        groups = [*effects["identical"], effects["none"], effects["alone"], effects["failed"]]
        assert sorted(one["name"] for group in groups for one in group) == ["first", "second"]
        assert not effects["failed"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--ptx", "none.ptx"], "no PTX file"),
            (["--ptx", "."], "no PTX file"),
            (["--ptx", "a.txt"], r"no .target"),
            (["--ptx", "a.txt", "--kernel", "k.py"], "give one of them"),
            (["--args", "f16[4]"], "name the kernel with --kernel"),
            (["--kernel", "none.py"], "no such kernel file"),
        ],
    )
    def test_wrong_options(self, acf: Acf, here: Path, options: list[str], message: str) -> None:
        (here / "a.txt").write_text("no PTX")
        assert acf("diff", "h200-seed", "h200-seed", *options)[0] == 2
        assert message in acf.error


def test_the_installed_command_prints_one_line_and_the_exit_code_stands(seed: Path, here: Path) -> None:
    (seed / ACFS[0]).unlink()
    done = helitune(here, "acf", "verify", seed, "--no-ptxas")
    assert done.returncode == 2
    assert done.stdout == f"{seed}: {ACFS[0]}: listed in {MANIFEST}, but missing\n"
    assert done.stderr.startswith("helitune: 1 fault(s)") and done.stderr.count("\n") == 1
