"""The CSV of an evolution, read by CompileIQ itself."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from pin_runs import OWN, failed, make_run, trial

from helitune.results.bred_acfs import BredAcfs
from helitune.results.compileiq_csv import COLUMNS, FILE_NAME, write_csv
from helitune.results.run_directory import RunDirectory
from helitune.results.trial import Trial


def bred_run(folder: Path) -> tuple[RunDirectory, list[Trial]]:
    """A run of three bred ACFs in two generations, of which the second fails; a fourth was never evaluated."""
    run = make_run(folder, [OWN])
    keep = BredAcfs(run, arch="sm_90", toolkit="13.3")
    acfs = [*keep([b"\x01", b"\x02"], generation=0), *keep([b"\x03", b"\x04"], generation=1)]
    trials = [OWN, trial(2, 150.0), failed(3), trial(4, 90.5)]
    for place, acf in enumerate(acfs[:3], start=1):
        trials[place] = replace(
            trials[place], acf_sha256=acf.sha256, acf_name=acf.name, origin="evolve", config={"num_warps": 4}
        )
    return run, trials


def test_compileiq_reads_its_own_columns_and_finds_the_best(tmp_path: Path) -> None:
    from compileiq.results import SearchResult

    run, trials = bred_run(tmp_path)
    write_csv(run, trials, with_config=False)
    found = SearchResult.from_csv(str(run.path / FILE_NAME), "min")
    assert tuple(found.df_results.columns) == COLUMNS
    assert list(found.df_results["params"]) == ["01", "02", "03"]
    best = found.get_best_result()
    assert (best["score_1"], best["generation"], best["metadata"]) == (90.5, 1, "trial 4")


def test_failed_candidates_have_compileiqs_own_mark(tmp_path: Path) -> None:
    run, trials = bred_run(tmp_path)
    write_csv(run, trials, with_config=False)
    with (run.path / FILE_NAME).open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["score_1"] for row in rows] == ["150.0", "*", "90.5"]
    assert rows[1]["metadata"] == "trial 3, failed at compile"


def test_a_joint_search_keeps_the_config_beside_the_acf(tmp_path: Path) -> None:
    from compileiq.results import SearchResult

    run, trials = bred_run(tmp_path)
    write_csv(run, trials, with_config=True)
    found = SearchResult.from_csv(str(run.path / FILE_NAME), "min")
    assert found.df_results["params"][0] == [{"num_warps": 4}, "01"]
