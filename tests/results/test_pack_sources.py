"""Which winners of runs and pins go into a pack, with which provenance, and why others do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pin_runs import ACF, ACF_SHA256, BETTER, FINGERPRINT, OWN, make_run, trial

from helitune.acfs.errors import InputError
from helitune.results.pack_evidence import Entry, Provenance, Winner, accepted, refusal
from helitune.results.pack_sources import gather, pack_head, packed
from helitune.results.pin import Pin, pin_text
from helitune.results.pin_choice import make_pin
from helitune.results.verdict import Numbers, Reason, Status, Verdict

FASTER = {
    "kind": "measured",
    **Verdict(
        Status.FASTER,
        Reason.ABOVE_FLOOR,
        "strict",
        Numbers(speedup=1.0255, low=1.0241, high=1.0269, runs=2, rounds=10),
    ).to_record(),
}
ENTRY = Entry(
    source="here",
    kernel="softmax",
    source_sha256="ab" * 32,
    reference="file:reference",
    gpu="sm_90",
    shapes=("f16[4096,2560]",),
    config={"num_warps": 4},
    fingerprint=FINGERPRINT,
    run={"id": "run"},
    evidence=FASTER,
)
TWO_SHAPES = replace(ENTRY, shapes=("f16[4096,2560]", "f16[64,64]"))


def verdicts(*statuses: str | None) -> dict[str, Any]:
    """Evidence with a verdict for each shape; None leaves the shape out."""
    records = [{**FASTER, "shape": i, "status": s} for i, s in enumerate(statuses) if s is not None]
    return {"kind": "measured", "status": "FASTER", "verdicts": records}


def taken(entry: Entry, *allow: str) -> Provenance:
    provenance = accepted(entry, frozenset(allow))
    assert provenance is not None
    return provenance


class TestAccepted:
    def test_a_faster_verdict_is_kept_with_its_numbers(self) -> None:
        record = taken(ENTRY).to_json()
        assert record["verdicts"] == [
            {
                "status": "FASTER",
                "reason": "above_floor",
                "gate": "strict",
                "speedup": 1.0255,
                "low": 1.0241,
                "high": 1.0269,
                "runs": 2,
                "rounds": 10,
            }
        ]
        assert (record["kernel"], record["gpu"], record["shapes"]) == ("softmax", "sm_90", ["f16[4096,2560]"])
        assert record["fingerprint"] == FINGERPRINT and record["run"] == {"id": "run"}
        assert taken(ENTRY).sentence() == (
            "softmax f16[4096,2560] on sm_90: FASTER, 1.0255x (1.0241 to 1.0269)"
        )

    @pytest.mark.parametrize("status", sorted(set(Status) - {Status.FASTER}))
    def test_every_other_status_is_refused(self, status: Status) -> None:
        entry = replace(ENTRY, evidence={**FASTER, "status": status.value})
        assert accepted(entry) is None
        assert status.value in refusal(entry)

    def test_ambiguous_is_taken_when_it_is_allowed_and_keeps_its_status(self) -> None:
        entry = replace(ENTRY, evidence={**FASTER, "status": "AMBIGUOUS"})
        assert "--allow ambiguous" in refusal(entry)
        assert accepted(entry, frozenset({"compiled"})) is None
        assert taken(entry, "ambiguous").to_json()["status"] == "AMBIGUOUS"

    @pytest.mark.parametrize("evidence", ["compiled", {"kind": "compiled"}])
    def test_compiled_is_taken_when_it_is_allowed_and_claims_no_time(self, evidence: object) -> None:
        entry = replace(ENTRY, evidence=evidence)
        assert accepted(entry) is None and "--allow compiled" in refusal(entry)
        assert accepted(entry, frozenset({"ambiguous"})) is None
        provenance = taken(entry, "compiled")
        assert (provenance.status, provenance.verdicts) == ("compiled", ())
        assert "no run time was taken" in provenance.sentence()

    @pytest.mark.parametrize("status", ["SLOWER", "SAME", "NO_OP", "UNSTABLE", "UNDECIDED"])
    def test_no_allowance_takes_a_verdict_that_speaks_against_it(self, status: str) -> None:
        entry = replace(ENTRY, evidence={**FASTER, "status": status})
        assert accepted(entry, frozenset({"ambiguous", "compiled"})) is None

    def test_every_shape_must_be_faster(self) -> None:
        both = replace(TWO_SHAPES, evidence=verdicts("FASTER", "FASTER"))
        assert [verdict["shape"] for verdict in taken(both).verdicts] == [0, 1]
        assert taken(both).sentence().count("1.0255x") == 2
        for statuses, expected in (
            (("FASTER", "SLOWER"), "SLOWER"),
            (("SAME", "AMBIGUOUS"), "SAME"),
            (("FASTER", None), "UNDECIDED"),
        ):
            entry = replace(TWO_SHAPES, evidence=verdicts(*statuses))
            assert accepted(entry, frozenset({"ambiguous"})) is None
            assert f"its verdict is {expected}" in refusal(entry)

    def test_an_overall_status_is_not_bettered_by_its_parts(self) -> None:
        entry = replace(TWO_SHAPES, evidence={**verdicts("FASTER", "FASTER"), "status": "UNSTABLE"})
        assert accepted(entry) is None

    @pytest.mark.parametrize(
        "evidence",
        [
            None,
            7,
            [],
            "measured",
            "FASTER",
            {},
            {"kind": "measured"},
            {"kind": "measured", "status": "faster"},
            {"kind": "believed", "status": "FASTER"},
            {**FASTER, "speedup": float("nan")},
            {**FASTER, "speedup": "1.5"},
            {**FASTER, "verdicts": "FASTER"},
            {**FASTER, "verdicts": ["FASTER"]},
        ],
    )
    def test_a_broken_record_is_no_evidence(self, evidence: object) -> None:
        with pytest.raises(ValueError):
            accepted(replace(ENTRY, evidence=evidence), frozenset({"compiled", "ambiguous"}))

    @pytest.mark.parametrize("records", [[], None])
    def test_an_empty_list_of_verdicts_accepts_nothing(self, records: object) -> None:
        evidence = {**FASTER, "verdicts": records}
        if records is None:
            with pytest.raises(ValueError):
                accepted(replace(ENTRY, evidence=evidence))
        else:
            assert accepted(replace(ENTRY, evidence=evidence)) is None


WritePin = Callable[..., Path]


@pytest.fixture
def write_pin(tmp_path: Path) -> WritePin:
    """Write a pin of the run's best into pins/, with `evidence` and other fields of its record."""

    def write(name: str = "f16.json", run_folder: str = "one", **fields: Any) -> Path:
        folder = tmp_path / run_folder
        run = make_run(folder, [OWN, BETTER])
        pin = make_pin(run, run.trials(), run.trials()[1], FINGERPRINT, asked=False)
        (tmp_path / "pins").mkdir(exist_ok=True)
        path = tmp_path / "pins" / name
        path.write_text(json.dumps(json.loads(pin_text(pin)) | fields))
        (tmp_path / "pins" / f"{ACF_SHA256}.acf").write_bytes(ACF)
        (tmp_path / "pins" / "f16.helion.json").write_text("{}")
        return path

    return write


class TestPins:
    def test_a_measured_pin_is_a_winner_with_its_acf_and_where_it_comes_from(
        self, write_pin: WritePin, tmp_path: Path
    ) -> None:
        (winner,), refused = gather([str(write_pin(evidence=FASTER))], tmp_path)
        assert (winner.content, winner.ptxas, refused) == (ACF, "13.3.73", ())
        record = winner.provenance.to_json()
        assert (record["kernel"], record["gpu"], record["status"]) == ("softmax", "sm_90", "FASTER")
        assert record["shapes"] == ["f16[4096,2560]"] and record["config"] == BETTER.config
        assert record["run"]["id"] == "20261201-101500-ab12" and record["run"]["trial"] == BETTER.id
        assert record["fingerprint"]["ptxas"]["version"] == "13.3.73"

    def test_a_folder_stands_for_the_pins_below_it(self, write_pin: WritePin, tmp_path: Path) -> None:
        write_pin("one.json", evidence=FASTER)
        write_pin("two.json", run_folder="two", evidence="compiled")
        winners, refused = gather([str(tmp_path / "pins")], tmp_path)
        assert len(winners) == 1
        assert [(Path(r.source).name, "compiled" in r.reason) for r in refused] == [("two.json", True)]

    def test_a_pin_without_an_acf_is_refused(self, write_pin: WritePin, tmp_path: Path) -> None:
        path = write_pin()
        fields = json.loads(path.read_text())
        plain = replace(Pin.from_json(fields), acf=None)
        path.write_text(pin_text(plain))
        assert [r.reason for r in gather([str(path)], tmp_path)[1]] == ["the pin has no ACF"]

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"gpu": "sm_100"}, "changed by hand"),
            ({"format": 99}, "from the future"),
            ({"format": None}, "not a pin"),
            ({"kernel": 7}, "not a pin"),
            ({"evidence": {"kind": "measured"}}, "evidence cannot be read"),
        ],
    )
    def test_a_broken_pin_is_an_input_error(
        self, write_pin: WritePin, tmp_path: Path, fields: dict[str, Any], message: str
    ) -> None:
        path = write_pin(**fields)
        with pytest.raises(InputError, match=message) as raised:
            gather([str(path)], tmp_path)
        assert raised.value.where == str(path) and raised.value.next_step

    @pytest.mark.parametrize("content", [None, b"", b"another"])
    def test_a_missing_or_altered_acf_is_an_error_and_no_omission(
        self, write_pin: WritePin, tmp_path: Path, content: bytes | None
    ) -> None:
        path = write_pin(evidence=FASTER)
        acf = path.with_name(f"{ACF_SHA256}.acf")
        acf.unlink() if content is None else acf.write_bytes(content)
        with pytest.raises(InputError, match="missing or altered") as raised:
            gather([str(path)], tmp_path)
        assert raised.value.where == str(acf)

    @pytest.mark.parametrize("name", ["nothing.json", "pins/none.json", "no run", "x" * 5000, "\0"])
    def test_a_name_for_nothing_is_an_input_error(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputError):
            gather([name], tmp_path)

    def test_a_folder_without_pins_is_an_input_error(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no pin and no run"):
            gather([str(tmp_path)], tmp_path)


def judged(status: str, number: int = 2, **fields: Any) -> dict[str, Any]:
    """One of run.json's verdicts."""
    return {**FASTER, "trial": f"{number:016x}", "shape": 0, "status": status, **fields}


class TestRuns:
    def reasons(self, folder: Path, *allow: str, **fields: Any) -> list[str]:
        run = make_run(folder, [OWN, BETTER, trial(3, 150.0)], **fields)
        winners, refused = gather([str(run.path)], folder, frozenset(allow))
        assert not winners
        return [one.reason for one in refused]

    def test_the_trials_that_were_judged_faster_are_winners(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, [OWN, BETTER], verdicts=[judged("FASTER")])
        (winner,), refused = gather([str(run.path)], tmp_path)
        assert (winner.content, winner.ptxas, refused) == (ACF, "13.3.73", ())
        record = winner.provenance.to_json()
        assert record["run"] == {
            "id": run.id,
            "created": "2026-12-01T10:15:00+0000",
            "trial": BETTER.id,
            "number": 2,
        }
        assert (record["status"], record["config"]) == ("FASTER", BETTER.config)

    def test_a_run_is_found_by_its_id_too(self, tmp_path: Path) -> None:
        run = make_run(tmp_path / ".helitune" / "runs", [OWN, BETTER], verdicts=[judged("FASTER")])
        assert len(gather([run.id], tmp_path)[0]) == 1

    def test_other_verdicts_are_refused_one_by_one(self, tmp_path: Path) -> None:
        reasons = self.reasons(
            tmp_path, verdicts=[judged("SLOWER"), judged("FASTER", 3), judged("FASTER", 9)]
        )
        assert reasons == [
            "its verdict is SLOWER, not FASTER",
            "the trial has no ACF",
            "there is no trial 0000000000000009",
        ]

    def test_a_run_that_was_only_compiled_gives_its_best_when_that_is_allowed(self, tmp_path: Path) -> None:
        assert "no run time was taken" in self.reasons(tmp_path / "refused")[0]
        run = make_run(tmp_path / "allowed", [OWN, BETTER])
        (winner,), _ = gather([str(run.path)], tmp_path, frozenset({"compiled"}))
        assert winner.provenance.status == "compiled"

    def test_a_measured_search_without_a_validation_is_no_evidence(self, tmp_path: Path) -> None:
        assert (
            "is not validated: helitune validate"
            in self.reasons(tmp_path, "compiled", evidence="measured")[0]
        )

    def test_a_run_whose_best_is_its_own_config_has_no_winner(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, [OWN, trial(2, 300.0, acf=True)])
        winners, refused = gather([str(run.path)], tmp_path, frozenset({"compiled"}))
        assert not winners and "ranks above the kernel's own config" in refused[0].reason

    def test_a_kernel_that_disagrees_with_its_reference_has_no_winner(self, tmp_path: Path) -> None:
        check = {"agrees": False, "message": "softmax differs from its reference"}
        assert self.reasons(tmp_path, "compiled", check=check) == ["softmax differs from its reference"]

    @pytest.mark.parametrize("records", ["FASTER", [7], [{"status": "FASTER"}], [{"trial": "x"}]])
    def test_broken_verdicts_are_an_input_error(self, tmp_path: Path, records: object) -> None:
        with pytest.raises(InputError, match="verdicts cannot be read"):
            self.reasons(tmp_path, verdicts=records)


def winner(content: bytes = ACF, ptxas: str = "13.3.73", **fields: Any) -> Winner:
    return Winner(content, ptxas, taken(replace(ENTRY, **fields), "compiled"))


class TestPacked:
    def test_equal_bytes_become_one_file_with_each_provenance_once(self) -> None:
        winners = [winner(), winner(kernel="rms_norm"), winner(), winner(b"another")]
        first, second = packed(winners)
        assert (first.content, second.content) == (ACF, b"another")
        assert [record["kernel"] for record in first.provenance] == ["softmax", "rms_norm"]
        assert "rms_norm" in first.description and "softmax" in first.description

    def test_the_head_says_what_all_are_for_and_how_many_were_measured(self) -> None:
        head = pack_head([winner(), winner(kernel="rms_norm")], "mine")
        assert (head.pack_id, head.cuda_version, head.supported_gpus, head.passed) == (
            "mine",
            "13.3",
            ("sm_90",),
            True,
        )
        assert "rms_norm, softmax" in head.description
        mixed = pack_head([winner(), winner(evidence="compiled")], "mine")
        assert not mixed.passed and mixed.evidence.startswith("1 of 2 winners were measured FASTER")

    @pytest.mark.parametrize("other", [{"ptxas": "13.4.92"}, {"gpu": "sm_100"}])
    def test_one_pack_is_for_one_toolkit_and_one_architecture(self, other: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="winners of different toolchains") as raised:
            pack_head([winner(source="one"), winner(source="two", **other)], "mine")
        assert "(one)" in raised.value.what and "(two)" in raised.value.what

    def test_a_patch_of_ptxas_is_no_other_toolkit(self) -> None:
        assert pack_head([winner(), winner(ptxas="13.3.80")], "mine").cuda_version == "13.3"
