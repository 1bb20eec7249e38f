"""Recorded tables: what is written reads back, what is not whole is refused by its line, and noise is drawn anew."""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helitune.acfs.acf import NO_ACF, Acf
from helitune.acfs.errors import InputError
from helitune.objectives.outcomes import Failed, Measured
from helitune.objectives.replay import OFFSET_SD, ReplayEvaluator, drawn_ratios, replay_evaluate
from helitune.objectives.replay_records import FailedPoint, MeasuredPoint, Point, SamePoint, TableHeader
from helitune.objectives.replay_table import ReplayTable, header_line, read_table
from helitune.objectives.replay_writer import TableWriter
from helitune.search.candidate import Candidate
from helitune.search.space import Dimension

TABLES = sorted((Path(__file__).parents[2] / "benchmarks" / "tables").glob("*.jsonl.gz"))

ACFS = tuple(Acf(f"{i}.acf", f"{i:064x}", None, ("sm_90",), "13.3") for i in range(2))
HEADER = TableHeader(
    kernel="made_up",
    shapes=([{"dtype": "f16", "shape": [64, 64], "strides": [64, 1], "values": "normal"}],),
    gpu="none: made up for a test",
    versions={"helion": "1.5.0"},
    date="2026-12-01",
    dimensions=(
        Dimension("block_sizes", 0, (0,), ((16,), (32,))),
        Dimension("loop_orders", None, (1, 2), (((0, 1), None), ((1, 0), True))),
    ),
    acfs=ACFS,
    baselines={"own": (0, 0, 0)},
)
INVALID = "InvalidConfig: made up"


def made_up_point(genome: tuple[int, ...]) -> Point:
    """(1, 1, ·) is no config, (0, 1, ·) is that of (0, 0, ·), ACF 2 crashes, and the rest takes what it takes."""
    block, order, acf = genome
    if (block, order) == (1, 1):
        return FailedPoint(genome, Failed("invalid_config", INVALID))
    if (block, order) == (0, 1):
        return SamePoint(genome, (0, 0, acf))
    config, sha = {"block_sizes": [16 << block], "order": order}, HEADER.space.acfs[acf].sha256
    if acf == 2:
        return FailedPoint(genome, Failed("illegal_access", "made up"))
    ratios = tuple(1.0 + 0.1 * block - 0.02 * acf + 0.001 * n for n in range(5))
    return MeasuredPoint(genome, config, sha, ratios, 0.02, {"registers": 32.0, "issue_slots": 1.5})


POINTS = [made_up_point(genome) for genome in itertools.product(range(2), range(2), range(3))]


def recorded(path: Path, points: list[Point] = POINTS) -> ReplayTable:
    with TableWriter(path, HEADER) as writer:
        for point in points:
            writer.add(point)
        writer.finish()
    return read_table(path)


def lines() -> list[dict[str, Any]]:
    return [json.loads(header_line(HEADER)), *(point.to_json() for point in POINTS)]


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    return path


def test_a_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    table = recorded(tmp_path / "a.jsonl.gz")
    assert table.header == HEADER
    assert table.space.acfs == (NO_ACF, *ACFS)
    assert list(table.genomes) == [point.genome for point in POINTS]
    for point in POINTS:
        expected = made_up_point(point.same_as) if isinstance(point, SamePoint) else point
        assert table.point(point.genome) == expected


def test_equal_tables_are_equal_files(tmp_path: Path) -> None:
    recorded(tmp_path / "a.jsonl.gz")
    recorded(tmp_path / "b.jsonl.gz")
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl.gz", "b.jsonl.gz"]


def test_a_recording_that_was_cut_off_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    with TableWriter(path, HEADER) as writer:
        for point in POINTS[:5]:
            writer.add(point)
    part = tmp_path / "a.jsonl.gz.part"
    part.write_text(part.read_text()[:-9])
    with TableWriter(path, HEADER) as writer:
        assert writer.recorded == {point.genome for point in POINTS[:4]}
        for point in POINTS[4:]:
            writer.add(point)
        writer.finish()
    assert list(read_table(path).genomes) == [point.genome for point in POINTS]


def test_an_incomplete_recording_is_not_finished_and_is_kept(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "a.jsonl.gz", HEADER) as writer:
        for point in POINTS[:-1]:
            writer.add(point)
        with pytest.raises(InputError, match=r"holds 11 of 12 points; \(1, 1, 2\) are missing"):
            writer.finish()
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl.gz.part"]


def test_the_writer_refuses_what_it_could_not_read_back(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "a.jsonl.gz", HEADER) as writer:
        with pytest.raises(ValueError, match="does not fit"):
            writer.add(MeasuredPoint((2, 0, 0), {}, "", (1.0, 1.0, 1.0), 0.02))
        with pytest.raises(ValueError, match="is no point of this table"):
            writer.add(MeasuredPoint((0, 0, 0), {"order": (0, 1)}, "", (1.0, 1.0, 1.0), 0.02))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", None, "call it NAME.jsonl.gz"),
        ("a.jsonl.gz", "", "there is a table already"),
        ("a.jsonl.gz.part", "{}\n", "another recording was begun here"),
    ],
)
def test_the_writer_overwrites_nothing(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        TableWriter(tmp_path / name.removesuffix(".part"), HEADER)


Spoil = Callable[[list[Any]], None]
MEASURED, FAILED, SAME = 1, 3, 4
"""Lines (from 0) of POINTS' first measured point, its first failed one, and its first that is another's same."""

WRONG: list[tuple[str, Spoil, int, str]] = [
    ("newer format", lambda t: t[0].update(format=2), 1, "has format 2"),
    ("no kernel", lambda t: t[0].pop("kernel"), 1, "kernel is missing"),
    ("slots", lambda t: t[0]["dimensions"][0].update(slots=[1]), 1, "not 0 to 2, each once"),
    ("row", lambda t: t[0]["dimensions"][0].update(values=[[16, 32]]), 1, "a value for each slot"),
    ("acf twice", lambda t: t[0]["acfs"].append(t[0]["acfs"][0]), 1, "stands here twice"),
    ("baseline", lambda t: t[0]["baselines"][0].update(genome=[9, 0, 0]), 1, "does not fit"),
    ("outside", lambda t: t[MEASURED].update(genome=[0, 0, 3]), 2, "does not fit"),
    ("rounds", lambda t: t[MEASURED].update(ratios=[]), 2, "one or more ratios"),
    ("negative", lambda t: t[MEASURED].update(ratios=[1.0, 1.0, -1.0]), 2, "above 0"),
    ("nan", lambda t: t[MEASURED].update(ratios=[1.0, 1.0, float("nan")]), 2, "no finite number"),
    ("features", lambda t: t[MEASURED].update(features={"registers": "32"}), 2, "registers"),
    ("outcome", lambda t: t[MEASURED].update(outcome="lost"), 2, "neither 'measured' nor 'failed'"),
    ("stage", lambda t: t[FAILED].update(stage="bad luck"), 4, "is none of"),
    ("other acf", lambda t: t[MEASURED + 1].update(acf_sha256=""), 3, "not the ACF"),
    ("same acf", lambda t: t[SAME].update(same_as=[0, 0, 1]), 5, "another ACF"),
    ("chain", lambda t: t[SAME].update(same_as=[0, 1, 0]), 5, "no point of its own"),
    ("twice", lambda t: t.insert(2, t[1]), 3, "a second time"),
    ("same config", lambda t: t.insert(SAME, {**t[MEASURED], "genome": [0, 1, 0]}), 5, "same_as must name"),
    ("missing", lambda t: t.pop(), 12, r"\(1, 1, 2\) are missing"),
    ("no point", lambda t: t.insert(1, []), 2, "an object with genome is expected"),
    ("empty", lambda t: t.clear(), 1, "an object with format is expected"),
]


@pytest.mark.parametrize(("spoil", "line", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_a_table_that_is_not_whole_is_refused_with_its_line(
    tmp_path: Path, spoil: Spoil, line: int, message: str
) -> None:
    records = lines()
    spoil(records)
    path = write_lines(tmp_path / "a.jsonl.gz", records)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}\n",
        gzip.compress(header_line(HEADER).encode())[:-20],
        gzip.compress(b"{"),
        gzip.compress(b"\xff\n"),
    ],
    ids=["empty", "not gzip", "cut off", "not JSON", "not UTF-8"],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_table(path)
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.jsonl.gz")


@pytest.fixture
def table(tmp_path: Path) -> ReplayTable:
    return recorded(tmp_path / "a.jsonl.gz")


def test_scores_scatter_about_the_true_one_as_builds_of_a_kernel_do(table: ReplayTable) -> None:
    point = table.point((0, 0, 0))
    assert isinstance(point, MeasuredPoint)
    scores = [replay_evaluate(table, seed)([(0, 0, 0)])[0] for seed in range(200)]
    found = [score for score in scores if score is not None]
    assert len(set(found)) == 200  # every run has its own offset
    assert abs(statistics.median(found) - point.true_score) < 3 * OFFSET_SD / 200**0.5
    assert OFFSET_SD * 0.8 < statistics.stdev(found) < OFFSET_SD * 1.5


def test_the_rounds_of_a_run_are_recorded_ones_that_share_one_offset(table: ReplayTable) -> None:
    point = table.point((1, 0, 1))
    assert isinstance(point, MeasuredPoint)
    for seed in range(5):
        drawn = drawn_ratios(point, seed)
        assert len(drawn) == len(point.ratios)
        assert any(
            all(min(abs(ratio / offset - r) for r in point.ratios) < 1e-12 for ratio in drawn)
            for offset in (drawn[0] / r for r in point.ratios)
        )


def test_a_run_scores_a_candidate_the_same_whenever_and_as_whatever_it_is_asked_for(
    table: ReplayTable,
) -> None:
    genomes = [point.genome for point in POINTS]
    evaluate = replay_evaluate(table, 7)
    together = evaluate(genomes, upcoming=genomes)
    assert [evaluate([genome])[0] for genome in reversed(genomes)] == together[::-1]
    assert replay_evaluate(table, 8)(genomes) != together
    scores = dict(zip(genomes, together, strict=True))
    assert scores[0, 1, 1] == scores[0, 0, 1] is not None


def test_failures_come_back_as_they_were_recorded(table: ReplayTable) -> None:
    assert replay_evaluate(table, 1)([(0, 0, 2), (1, 1, 0)]) == [None, None]
    evaluator = ReplayEvaluator(table, 1)
    row, acf = table.space.decode((1, 0, 2))
    config, invalid = evaluator.normalise([row, table.space.decode((1, 1, 2))[0]])
    assert invalid == Failed("invalid_config", INVALID)
    assert isinstance(config, dict)
    assert evaluator.evaluate(Candidate.of(config, acf)) == Failed("illegal_access", "made up")


def test_the_evaluator_gives_the_outcome_that_strategies_are_told_of(table: ReplayTable) -> None:
    evaluator, genomes = ReplayEvaluator(table, 3), [(0, 0, 0), (0, 1, 0), (1, 0, 1)]
    rows = [table.space.decode(genome) for genome in genomes]
    configs = evaluator.normalise([row for row, _ in rows])
    outcomes = [
        evaluator.evaluate(Candidate.of(c, acf))
        for c, (_, acf) in zip(configs, rows, strict=True)
        if isinstance(c, dict)
    ]
    measured = [outcome for outcome in outcomes if isinstance(outcome, Measured)]
    assert [m.score for m in measured] == replay_evaluate(table, 3)(genomes)
    assert [m.compiled.code == measured[0].compiled.code for m in measured] == [True, True, False]
    assert measured[0].compiled.artifacts[0][0].registers == 32
    assert measured[0].compiled.score == 1.5
    assert Measured.from_json(json.loads(json.dumps(measured[2].to_json()))) == measured[2]


def test_points_of_one_code_score_alike(tmp_path: Path) -> None:
    coded = [
        MeasuredPoint(p.genome, p.config, p.acf_sha256, (1.0, 1.1, 1.2), 0.02, code=("same",))
        if isinstance(p, MeasuredPoint)
        else p
        for p in POINTS
    ]
    table = recorded(tmp_path / "a.jsonl.gz", coded)
    assert len(set(replay_evaluate(table, 5)([(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]))) == 1


def test_four_kernels_or_more_are_recorded() -> None:
    assert len(TABLES) >= 4


@pytest.mark.parametrize("path", TABLES, ids=[path.name for path in TABLES])
def test_a_shipped_table_is_whole_and_can_be_searched(path: Path) -> None:
    table = read_table(path)
    assert table.space.size >= 400
    assert all(genome in set(table.genomes) for genome in table.header.baselines.values())
    genomes = list(table.genomes)
    scores = replay_evaluate(table, 1)(genomes)
    rows = [table.space.decode(genome) for genome in genomes]
    evaluator = ReplayEvaluator(table, 1)
    normal = evaluator.normalise([row for row, _ in rows])
    for config, (_, acf), score in zip(normal, rows, scores, strict=True):
        outcome = config if isinstance(config, Failed) else evaluator.evaluate(Candidate.of(config, acf))
        assert (None if isinstance(outcome, Failed) else outcome.score) == score
