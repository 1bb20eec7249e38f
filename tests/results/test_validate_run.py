"""A validation on stand-ins for the GPU process: what it asks, what it writes down, what it decides."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from validation_runs import OWN_TRIAL, PLAIN, WITH_ACF, Gpu, head, measured, recoded, sessions

from helitune.acfs.errors import InputError, MachineError, NegativeVerdict
from helitune.objectives.times import Tried
from helitune.results.thresholds import ARTICLE, STRICT, Thresholds
from helitune.results.trial import OWN, Trial
from helitune.results.validate_run import Plan, validate
from helitune.results.validation_file import ValidationFile, count_validations, read_validations
from helitune.results.validation_record import AGAIN, PLAIN_AGAIN, Validation
from helitune.results.validation_verdict import Finding, judge
from helitune.results.verdict import Reason, Status

SHORT = replace(STRICT, soak_repeats=100)


class Rig:
    """A validation of trials on simulated GPUs; keeps what was asked of each."""

    def __init__(self, folder: Path, trials: Sequence[Trial] = (PLAIN, WITH_ACF), **gpu: Any) -> None:
        self.trials = list(trials)
        self.own = OWN_TRIAL
        self.plain: Trial | None = next((t for t in trials if not t.acf_sha256), None)
        self.thresholds: Thresholds = SHORT
        self.path = folder / "validation.jsonl"
        self.gpu_fields: Callable[[int], dict[str, Any]] = lambda run: gpu
        self.recompiled: Mapping[str, Any] = {}
        self.gpus: list[Gpu] = []
        self.cool_down_s = 0.0
        self.seed = 0

    def run(self) -> tuple[Validation, dict[int, Finding]]:
        assert self.own.compiled is not None
        shapes = len(self.own.compiled.values)
        ms = {t.id: [0.02 * (t.score or 1.0)] * shapes for t in [self.own, *self.trials]}

        def gpus(run: int, seed: int) -> Gpu:
            self.gpus.append(Gpu(**{"ms": ms, "seed": seed, **self.gpu_fields(run)}))
            return self.gpus[-1]

        settled = replace(head(self.trials, self.plain, self.thresholds), seed=self.seed)
        plan = Plan(settled, self.own, self.plain, tuple(self.trials), self.cool_down_s)
        start = sessions([self.own, *self.trials], gpus, self.recompiled)
        with ValidationFile(self.path) as file:
            validation, findings = validate(plan, start, file, lambda text: None)
        return validation, {finding.finalist.number: finding for finding in findings}


def outcome(finding: Finding) -> tuple[Status, Reason]:
    return finding.whole.status, finding.whole.reason


def test_gains_are_faster_in_every_run_and_attributed_to_config_and_acf(tmp_path: Path) -> None:
    _, found = Rig(tmp_path).run()
    assert [outcome(found[n])[0] for n in (2, 3)] == [Status.FASTER, Status.FASTER]
    numbers = found[3].whole.numbers
    assert numbers.speedup == pytest.approx(1 / 0.93, rel=0.003) and len(numbers.run_speedups) == 2
    assert (numbers.runs, numbers.rounds, numbers.family) == (2, 10, 2)
    (beside_plain,) = found[3].over_plain
    assert beside_plain.status is Status.FASTER
    assert beside_plain.numbers.speedup == pytest.approx(0.95 / 0.93, rel=0.003)
    assert found[2].over_plain == ()


def test_every_run_is_checked_soaked_and_placed_before_it_measures(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    validation, _ = rig.run()
    assert [gpu.asked[:7] for gpu in rig.gpus] == [
        ["use_own", "try_build", "try_build", f"soak {soaked}", "place", "use_own", "stand_arms"]
        for soaked in (100, 10)
    ]
    built = {"own", AGAIN, PLAIN.id, PLAIN_AGAIN, WITH_ACF.id}
    assert [set(run.built) for run in validation.runs] == [built, built]
    assert validation.runs[0].seed != validation.runs[1].seed
    # a run that is placed like another one would be no run
    assert validation.runs[0].pads_bytes != validation.runs[1].pads_bytes


def test_orders_are_drawn_at_random_and_recorded(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    validation, _ = rig.run()
    orders = [line.round.order for line in validation.rounds]
    assert len(set(orders)) > 10 and len({order.index("own") for order in orders}) == 5
    rig.seed, rig.gpus = 1, []
    assert [line.round.order for line in rig.run()[0].rounds] != orders
    rig.seed = 0
    assert [line.round.order for line in rig.run()[0].rounds] == orders


def test_only_what_is_ambiguous_goes_on_to_the_next_look(tmp_path: Path) -> None:
    near = measured(4, 1 / 1.006, acf=True)
    validation, found = Rig(tmp_path, [PLAIN, WITH_ACF, near], noise=0.006).run()
    assert outcome(found[3])[0] is Status.FASTER and found[3].whole.numbers.rounds == 10
    assert outcome(found[4]) == (Status.AMBIGUOUS, Reason.INTERVAL_CROSSES_FLOOR)
    assert found[4].whole.numbers.rounds == 40 and found[4].whole.next_rounds is None
    later = [line.round for line in validation.rounds if line.look == 2]
    assert len(later) == 2 * 20
    assert all(WITH_ACF.id not in one.samples_ms and near.id in one.samples_ms for one in later)
    # the baselines stand in every round
    assert all({"own", AGAIN, PLAIN.id, PLAIN_AGAIN} <= one.samples_ms.keys() for one in later)


def test_a_candidate_that_is_the_baseline_in_disguise_is_never_faster(tmp_path: Path) -> None:
    disguised = [measured(n, 1.0, acf=True) for n in range(2, 10)]
    rng = random.Random(3)
    for seed in range(5):
        rig = Rig(tmp_path, disguised)
        rig.plain, rig.seed = None, seed
        rig.gpu_fields = lambda run: {"offsets": {t.id: rng.gauss(0, 0.001) for t in disguised}}
        _, found = rig.run()
        assert not [n for n, finding in found.items() if finding.whole.accepted]


def test_an_arm_that_is_off_in_one_run_is_not_faster(tmp_path: Path) -> None:
    rig = Rig(tmp_path, [measured(2, 1.0)])
    rig.gpu_fields = lambda run: {"offsets": {measured(2, 1.0).id: -0.02 if run == 1 else 0.0}}
    _, found = rig.run()
    assert found[2].whole.status is Status.AMBIGUOUS


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        ("wrong_output", Reason.WRONG_OUTPUT),
        ("illegal_access", Reason.FAILED),
        ("hang", Reason.FAILED),
        ("drift", Reason.DRIFT),
    ],
)
@pytest.mark.parametrize("when", ["", "soak "])
def test_a_candidate_that_fails_its_checks_is_undecided_and_the_others_go_on(
    tmp_path: Path, stage: str, reason: Reason, when: str
) -> None:
    rig = Rig(tmp_path, fails={f"{when}{WITH_ACF.id}": Tried(stage=stage, message="it said so")})
    validation, found = rig.run()
    assert outcome(found[3]) == (Status.UNDECIDED, reason) and not found[3].open
    assert found[3].failed is not None and found[3].failed.message == "it said so"
    assert outcome(found[2])[0] is Status.FASTER
    assert all(WITH_ACF.id not in line.round.samples_ms for line in validation.rounds)


def test_a_failure_in_the_second_run_spoils_the_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    wrong = {WITH_ACF.id: Tried(stage="wrong_output", message="only sometimes")}
    rig.gpu_fields = lambda run: {"fails": wrong if run == 2 else {}}
    _, found = rig.run()
    assert outcome(found[3]) == (Status.UNDECIDED, Reason.WRONG_OUTPUT)


def test_other_code_than_was_tuned_is_drift(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.recompiled = {WITH_ACF.id: recoded(WITH_ACF)}
    _, found = rig.run()
    assert outcome(found[3]) == (Status.UNDECIDED, Reason.DRIFT)
    assert outcome(found[2])[0] is Status.FASTER


def test_a_host_function_that_does_something_else_is_drift_and_no_no_op(tmp_path: Path) -> None:
    assert WITH_ACF.compiled is not None and OWN_TRIAL.compiled is not None
    hosted = replace(OWN_TRIAL.compiled, host=("fills with zeros",))
    other = replace(
        WITH_ACF,
        outcome=replace(WITH_ACF.measured, compiled=hosted),  # type: ignore[type-var]
    )
    rig = Rig(tmp_path, [PLAIN, other])
    _, found = rig.run()
    assert found[3].whole.status is Status.FASTER, "the own config's code, and another host"
    rig.recompiled = {other.id: replace(hosted, host=("fills with ones",))}
    _, found = rig.run()
    assert outcome(found[3]) == (Status.UNDECIDED, Reason.DRIFT)


def test_an_own_config_that_drifted_or_is_wrong_ends_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.recompiled = {OWN_TRIAL.id: recoded(OWN_TRIAL)}
    with pytest.raises(InputError, match="other code than was tuned") as raised:
        rig.run()
    assert raised.value.next_step == "tune again in this environment"
    with pytest.raises(NegativeVerdict, match="off by one"):
        Rig(tmp_path, wrong="off by one").run()


def test_without_the_best_without_an_acf_the_rest_is_judged(tmp_path: Path) -> None:
    _, found = Rig(tmp_path, fails={PLAIN.id: Tried(stage="hang", message="no answer")}).run()
    assert outcome(found[2]) == (Status.UNDECIDED, Reason.FAILED)
    assert outcome(found[3])[0] is Status.FASTER and found[3].over_plain == ()


def test_nothing_is_measured_where_no_finalist_is_left(tmp_path: Path) -> None:
    fails = {one.id: Tried(stage="hang", message="no answer") for one in (PLAIN, WITH_ACF)}
    rig = Rig(tmp_path, fails=fails)
    validation, found = rig.run()
    assert not validation.rounds and {outcome(f)[0] for f in found.values()} == {Status.UNDECIDED}


def test_a_process_that_was_replaced_is_no_run(tmp_path: Path) -> None:
    class Replaced(Gpu):
        def arm_rounds(self, orders: Any) -> Any:
            return [[] for _ in orders]

    rig = Rig(tmp_path)
    rig_gpu = Replaced({t.id: [0.02] for t in (OWN_TRIAL, PLAIN, WITH_ACF)}, 0)
    plan = Plan(head(rig.trials, PLAIN), OWN_TRIAL, PLAIN, tuple(rig.trials))
    start = sessions([OWN_TRIAL, *rig.trials], lambda run, seed: rig_gpu)
    with ValidationFile(rig.path) as file, pytest.raises(MachineError, match="run 1 was replaced"):
        validate(plan, start, file, lambda text: None)


def test_throttled_rounds_are_unstable(tmp_path: Path) -> None:
    _, found = Rig(tmp_path, reasons=("hw_thermal_slowdown",)).run()
    assert outcome(found[3]) == (Status.UNSTABLE, Reason.THROTTLED)


def test_it_cools_down_before_every_turn_but_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("helitune.results.validation_looks.time.sleep", slept.append)
    rig = Rig(tmp_path)
    rig.cool_down_s, rig.thresholds = 30.0, replace(SHORT, runs=3)
    validation, _ = rig.run()
    assert len(validation.runs) == 3 and slept == [30.0, 30.0]


class TestSeveralShapes:
    def rig(self, folder: Path, ratios: tuple[float, float]) -> Rig:
        two = measured(2, 1.0, shapes=2)
        rig = Rig(folder, [two])
        rig.own, rig.plain = measured(1, 1.0, origin=OWN, shapes=2), None
        rig.gpu_fields = lambda run: {
            "ms": {rig.own.id: [0.02, 0.2], two.id: [0.02 * ratios[0], 0.2 * ratios[1]]}
        }
        return rig

    def test_each_has_a_verdict_and_the_geometric_mean_one_of_the_whole(self, tmp_path: Path) -> None:
        _, found = self.rig(tmp_path, (0.95, 1.0)).run()
        assert [verdict.status for verdict in found[2].shapes] == [Status.FASTER, Status.SAME]
        assert outcome(found[2])[0] is Status.FASTER
        assert found[2].whole.numbers.speedup == pytest.approx(0.95**-0.5, rel=0.003)
        assert found[2].whole.numbers.family == 3

    def test_one_that_is_slower_spoils_the_whole(self, tmp_path: Path) -> None:
        _, found = self.rig(tmp_path, (0.80, 1.05)).run()
        assert outcome(found[2]) == (Status.SLOWER, Reason.BELOW_FLOOR)


class TestTheFile:
    def test_it_alone_gives_the_same_verdicts(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path, [PLAIN, WITH_ACF, measured(4, 1 / 1.006, acf=True)], noise=0.006)
        _, found = rig.run()
        (read,) = read_validations(rig.path)
        assert {f.finalist.number: f for f in judge(read)} == found

    def test_another_gate_can_decide_of_it(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path)
        rig.run()
        (read,) = read_validations(rig.path)
        by_article = judge(read, ARTICLE)
        assert {(f.whole.status, f.whole.gate) for f in by_article} == {(Status.FASTER, "article")}
        strictest = judge(read, replace(STRICT, min_effect=0.2))
        assert {f.whole.status for f in strictest} <= {Status.SAME, Status.AMBIGUOUS}

    @pytest.mark.parametrize("change", ["arms reversed", "samples tenfold", "microseconds"])
    def test_what_does_not_matter_changes_no_verdict(self, tmp_path: Path, change: str) -> None:
        rig = Rig(tmp_path, [PLAIN, WITH_ACF, measured(4, 0.9945)], noise=0.003)
        _, found = rig.run()
        lines = [json.loads(line) for line in rig.path.read_text().splitlines()]
        for line in lines:
            if line["kind"] != "round":
                continue
            if change == "arms reversed":
                line["order"] = line["order"][::-1]
            samples = line["samples_ms"]
            times = 10 if change == "samples tenfold" else 1
            factor = 1e3 if change == "microseconds" else 1.0
            line["samples_ms"] = {arm: [factor * ms for ms in samples[arm]] * times for arm in samples}
        rig.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (read,) = read_validations(rig.path)
        again = {f.finalist.number: outcome(f) for f in judge(read)}
        assert again == {number: outcome(finding) for number, finding in found.items()}

    def test_validations_are_added_and_counted(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path)
        assert count_validations(rig.path) == 0
        rig.run()
        with rig.path.open("a") as handle:
            handle.write('{"kind":"round","run":1')  # a line that a kill left half written
        rig.run()
        assert count_validations(rig.path) == 2 == len(read_validations(rig.path))

    def test_an_interrupted_one_is_undecided(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path)
        rig.run()
        lines = rig.path.read_text().splitlines(keepends=True)
        rig.path.write_text("".join(lines[:16]))
        (read,) = read_validations(rig.path)
        assert {f.whole.status for f in judge(read)} == {Status.UNDECIDED}

    @pytest.mark.parametrize(
        "edit",
        [
            {"order": ["own"]},
            {"samples_ms": {"own": [0.1]}},
            {"samples_ms": {"own": [-1.0]}, "order": ["own"]},
            {"samples_ms": {"own": [float("nan")]}, "order": ["own"]},
            {"samples_ms": {"own": []}, "order": ["own"]},
            {"kind": "square"},
            {"run": "1"},
            {"throttle_reasons": None},
        ],
    )
    def test_a_broken_round_is_an_input_error(self, tmp_path: Path, edit: dict[str, Any]) -> None:
        rig = Rig(tmp_path)
        rig.run()
        lines = rig.path.read_text().splitlines()
        broken = json.dumps({**json.loads(lines[5]), **edit})
        rig.path.write_text("\n".join([*lines[:5], broken, *lines[6:]]) + "\n")
        with pytest.raises(InputError, match="not a line of a validation") as raised:
            read_validations(rig.path)
        assert raised.value.where == f"{rig.path}:6"

    @pytest.mark.parametrize(
        ("edit", "says"),
        [
            ({"format": 99}, "this helitune reads up to"),
            ({"thresholds": {"alpha": 2}}, "bad thresholds"),
            ({"shapes": []}, "not one text for each shape"),
            ({"floor": {"quantile95": -1}}, r"floor|offset"),
            ({"own": None}, "own"),
        ],
    )
    def test_a_broken_head_is_an_input_error(self, tmp_path: Path, edit: dict[str, Any], says: str) -> None:
        rig = Rig(tmp_path)
        rig.run()
        first, *rest = rig.path.read_text().splitlines()
        rig.path.write_text("\n".join([json.dumps({**json.loads(first), **edit}), *rest]) + "\n")
        with pytest.raises(InputError, match=says):
            read_validations(rig.path)

    def test_no_file_and_an_empty_one_are_input_errors(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot read"):
            read_validations(tmp_path / "none.jsonl")
        (tmp_path / "empty.jsonl").touch()
        with pytest.raises(InputError, match="no validation in it"):
            read_validations(tmp_path / "empty.jsonl")
