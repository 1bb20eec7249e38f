"""ACFs of earlier runs and packs: the best first, and none that was made for another ptxas."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF_SHA256, FINGERPRINT, OWN, make_run, trial

from helitune.acfs.acf import Acf
from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.ptxas import Ptxas
from helitune.objectives.targets import find_target
from helitune.results.bred_acfs import BredAcfs
from helitune.results.evolution_request import EvolutionRequest
from helitune.results.run_directory import RUNS, RunDirectory
from helitune.results.session import Tools
from helitune.results.warm_start import MOST_OF_A_RUN, resolve_source, with_warm_start

EVOLUTION = EvolutionRequest("auto", "/x.bin", "ab" * 32, "own", "own", 8, 15)


def tools(version: str = "13.3.73", acfs: tuple[Acf, ...] = ()) -> Tools:
    return Tools(Ptxas(Path("/ptxas"), version, "ab" * 32), find_target("sm_90"), acfs, ())


def bred_run(folder: Path, scores: list[float], **fields: Any) -> RunDirectory:
    run = make_run(folder, [], **fields)
    acfs = BredAcfs(run, arch="sm_90", toolkit="13.3")(
        [bytes([1, n]) for n in range(len(scores))], generation=0
    )
    run.lock()
    run.append(OWN)
    for number, (acf, score) in enumerate(zip(acfs, scores, strict=True), start=2):
        run.append(replace(trial(number, score), acf_sha256=acf.sha256, acf_name=acf.name, origin="evolve"))
    run.close()
    return run


def sha256(*content: int) -> str:
    return hashlib.sha256(bytes(content)).hexdigest()


def pack(folder: Path, **manifest: Any) -> Path:
    folder.mkdir()
    (folder / "one.acf").write_bytes(b"one")
    entry = {"filename": "one.acf", "sha256": hashlib.sha256(b"one").hexdigest(), "size_bytes": 3}
    fields = {
        "schema_version": 1,
        "pack_id": "p",
        "cuda_version": "13.3",
        "supported_gpus": ["sm_90"],
        "acfs": [entry],
    }
    (folder / "booster-pack-manifest.json").write_text(json.dumps({**fields, **manifest}))
    return folder


def test_the_best_of_a_run_come_first_each_with_other_code(tmp_path: Path) -> None:
    run = bred_run(tmp_path, [50.0, 20.0, 30.0])
    found = with_warm_start(tools(), [str(run.path)])
    assert found.warm == (sha256(1, 1), sha256(1, 2), sha256(1, 0))
    assert [acf.name for acf in found.tools.acfs] == ["g0-1", "g0-2", "g0-0"]
    first = found.tools.acfs[0]
    assert first.path is not None and first.path.read_bytes() == bytes([1, 1]) and first.toolkit == "13.3"


def test_a_run_gives_only_its_best(tmp_path: Path) -> None:
    run = bred_run(tmp_path, [float(score) for score in range(10, 40)])
    assert len(with_warm_start(tools(), [str(run.path)]).warm) == MOST_OF_A_RUN


def test_acfs_that_a_pack_of_the_request_has_too_are_tried_first_but_stand_once(tmp_path: Path) -> None:
    run = bred_run(tmp_path, [50.0])
    known = Acf("known", sha256(1, 0), run.acfs / f"{sha256(1, 0)}.acf")
    found = with_warm_start(tools(acfs=(known,)), [str(run.path)])
    assert found.warm == (known.sha256,) and found.tools.acfs == (known,)


def test_a_pack_for_another_gpu_is_tried_all_the_same(tmp_path: Path) -> None:
    found = with_warm_start(tools(), [str(pack(tmp_path / "p", supported_gpus=["sm_100"]))])
    assert found.warm == (hashlib.sha256(b"one").hexdigest(),)


def test_another_ptxas_says_that_acfs_must_be_evolved_again(tmp_path: Path) -> None:
    request = make_run(tmp_path / "plain", []).run()["request"]
    run = bred_run(tmp_path, [50.0], request={**request, "evolution": asdict(EVOLUTION)})
    with pytest.raises(
        MachineError, match=r"made for CUDA 13\.3, this ptxas is 13\.4\.92: they must be evolved"
    ) as raised:
        with_warm_start(tools("13.4.92"), [str(run.path)])
    assert raised.value.next_step == f"search again: helitune evolve --again {run.path}"
    with pytest.raises(MachineError, match=r"made for CUDA 13\.4") as raised:
        with_warm_start(tools(), [str(pack(tmp_path / "p", cuda_version="13.4"))])
    assert "helitune evolve" in raised.value.next_step


def test_a_toolkit_is_no_decimal_number(tmp_path: Path) -> None:
    fingerprint = {**FINGERPRINT, "ptxas": {"version": "13.30.1", "sha256": "ab" * 32}}
    run = bred_run(tmp_path, [50.0], fingerprint=fingerprint)
    with pytest.raises(MachineError, match=r"CUDA 13\.30"):
        with_warm_start(tools(), [str(run.path)])


def test_a_run_without_any_acf_is_no_start(tmp_path: Path) -> None:
    run = make_run(tmp_path, [OWN])
    with pytest.raises(InputError, match="no ACF to start from"):
        with_warm_start(tools(), [str(run.path)])


def test_a_source_is_a_run_or_a_pack(tmp_path: Path) -> None:
    run = make_run(tmp_path / RUNS, [OWN])
    assert resolve_source(run.id, tmp_path) == str(run.path)
    assert resolve_source(str(pack(tmp_path / "p")), tmp_path) == str(tmp_path / "p")
    assert Path(resolve_source("h200-seed", tmp_path)).is_dir()
    with pytest.raises(InputError, match="neither a run nor a pack"):
        resolve_source("neither", tmp_path)


def test_no_warm_start_changes_nothing() -> None:
    plain = tools()
    assert with_warm_start(plain, ()).tools is plain
    assert ACF_SHA256 not in with_warm_start(plain, ()).warm
