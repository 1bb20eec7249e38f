"""ACFs that a run breeds: on disk before they are compiled, and found again by their place in a resumed run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pin_runs import ACF_SHA256, OWN, make_run

from helitune.acfs.errors import InputError
from helitune.results.bred_acfs import BredAcfs, bred_entries, listed_entries
from helitune.results.run_directory import RunDirectory

FIRST = [b"controls one", b"controls two"]
SAME_AGAIN = [b"CONTROLS one", b"CONTROLS two"]
"""The same controls in other bytes, as the engine gives them the next time."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path, [OWN])


def keeper(run: RunDirectory) -> BredAcfs:
    return BredAcfs(run, arch="sm_90", toolkit="13.3")


def names(run: RunDirectory) -> list[str]:
    return [entry["name"] for entry in bred_entries(run.run())]


def test_what_is_bred_is_on_disk_with_its_generation(run: RunDirectory) -> None:
    keep = keeper(run)
    first, second = keep(FIRST, generation=0)
    (third,) = keep([b"controls three"], generation=0)
    (fourth,) = keep([b"controls four"], generation=1)
    assert [acf.name for acf in (first, second, third, fourth)] == ["g0-0", "g0-1", "g0-2", "g1-0"]
    assert names(run) == ["g0-0", "g0-1", "g0-2", "g1-0"]
    assert [entry["generation"] for entry in bred_entries(run.run())] == [0, 0, 0, 1]
    assert first.sha256 == hashlib.sha256(FIRST[0]).hexdigest()
    assert (run.acfs / f"{first.sha256}.acf").read_bytes() == FIRST[0]
    assert first.path is not None and first.path.read_bytes() == FIRST[0] and " " not in str(first.path)
    assert (first.arch, first.toolkit) == (("sm_90",), "13.3")


def test_the_acfs_of_packs_stay_first_and_apart(run: RunDirectory) -> None:
    keeper(run)(FIRST, generation=0)
    fields = run.run()
    assert [entry["sha256"] for entry in listed_entries(fields)] == [ACF_SHA256]
    assert fields["acfs"][0]["sha256"] == ACF_SHA256 and len(fields["acfs"]) == 3


def test_a_resumed_run_finds_its_own_bytes_and_goes_on(run: RunDirectory) -> None:
    before = keeper(run)(FIRST, generation=0)
    resumed = keeper(run)
    assert resumed(SAME_AGAIN, generation=0) == before
    (new,) = resumed([b"controls three"], generation=1)
    assert new.name == "g1-0" and names(run) == ["g0-0", "g0-1", "g1-0"]


def test_a_batch_of_which_a_part_was_kept_is_completed(run: RunDirectory) -> None:
    before = keeper(run)(FIRST[:1], generation=0)
    after = keeper(run)(SAME_AGAIN, generation=0)
    assert after[:1] == before
    assert [acf.name for acf in after] == ["g0-0", "g0-1"]
    assert after[1].sha256 == hashlib.sha256(SAME_AGAIN[1]).hexdigest()


@pytest.mark.parametrize(
    ("contents", "generation"), [([b"another length"], 0), (SAME_AGAIN[:1], 1)], ids=["size", "generation"]
)
def test_another_proposal_in_a_recorded_place_ends_the_run(
    run: RunDirectory, contents: list[bytes], generation: int
) -> None:
    keeper(run)(FIRST, generation=0)
    with pytest.raises(InputError, match="does not propose again what this run recorded as g0-0"):
        keeper(run)(contents, generation=generation)


def test_an_altered_acf_is_not_used(run: RunDirectory) -> None:
    (acf,) = keeper(run)(FIRST[:1], generation=0)
    (run.acfs / f"{acf.sha256}.acf").write_bytes(b"something else")
    with pytest.raises(InputError, match="changed"):
        keeper(run)(SAME_AGAIN[:1], generation=0)
