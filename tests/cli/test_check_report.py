"""What a check prints and writes: table, JSON, JUnit XML and Markdown, made from records without a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import xmlschema
from helitune_cli import EXAMPLES
from markdown_it import MarkdownIt

from helitune.cli.check_markdown import markdown_text
from helitune.cli.check_report import CheckReport, print_report
from helitune.cli.check_table import aligned
from helitune.cli.junit import junit_text
from helitune.objectives.outcomes import Failed
from helitune.results.check_history import append_history, read_history
from helitune.results.check_moved import Change, Moved, Side, Weight
from helitune.results.check_times import ShapeTimes, Times
from helitune.results.checked import Checked, Result
from helitune.results.drift import Drift, FieldChange
from helitune.results.pin import read_pin
from helitune.results.pin_files import pin_files
from helitune.results.verdict import Numbers, Reason, Status, Verdict

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).parents[1] / "fixtures" / "junit.xsd"))
PATH = pin_files(EXAMPLES / "pins", kernel="softmax")[0]
PIN = read_pin(PATH)
NAME = "softmax f16[4096,2560] (sm_90)"
ENVIRONMENT = {
    "arch": "sm_90",
    "gpu": {"name": "NVIDIA H200", "driver": "580.159.04"},
    "packages": {"helion": "1.5.0", "triton": "3.6.0", "torch": "2.11.0"},
    "ptxas": {"version": "13.3.73", "sha256": "ab" * 32},
}
SAME = Moved((), Side(False), Side(False))
TRITON = Moved(
    (Change("triton", "3.6.0", "3.9.0", Weight.UNUSED),), Side(None), Side(True, "registers 70 → 71")
)


def verdict(speedup: float, status: Status, reason: Reason = Reason.ABOVE_FLOOR) -> Verdict:
    numbers = Numbers(
        speedup=speedup,
        low=speedup - 0.002,
        high=speedup + 0.002,
        run_speedups=(speedup, speedup),
        delta=0.005,
        min_effect=0.005,
        calibrated_aa=0.0021,
        largest_aa=0.001,
        runs=2,
        rounds=10,
    )
    return Verdict(status, reason, "strict", numbers)


def times(over_own: Verdict, over_no_acf: Verdict | None = None) -> Times:
    shape = ShapeTimes(over_own, over_no_acf, 0.0193, 0.0198, 0.0194)
    return Times(over_own, (shape,), {"kind": "measured", "validated": {"when": "now"}})


FINE = Checked(
    PATH,
    PIN,
    Result.FINE,
    "faster than the kernel's own config",
    moved=SAME,
    times=times(verdict(1.0255, Status.FASTER), verdict(1.0061, Status.FASTER)),
    elapsed_s=31.2,
)
REGRESSION = replace(
    FINE,
    result=Result.REGRESSION,
    message="slower than the kernel's own config",
    next_step="remove the pin, or tune again in this environment",
    moved=TRITON,
    times=times(verdict(0.9712, Status.SLOWER, Reason.BELOW_FLOOR)),
)
AMBIGUOUS = replace(FINE, result=Result.AMBIGUOUS, message="AMBIGUOUS: the interval crosses the floor")
# a compiler's message with colours, markup and a null byte
HOSTILE = "compile: \x1b[31m<error>\x1b[0m a|b `x` & [y](z)\x00\nsecond line"
FAILED = replace(
    FINE,
    result=Result.FAILED,
    message=HOSTILE,
    times=None,
    drift=Drift((), None, failed=Failed("compile", HOSTILE)),
)
UNREADABLE = Checked(Path("pins/x.json"), None, Result.INPUT, "the pin is not JSON", "write it again")
ELSEWHERE = replace(FINE, result=Result.ENVIRONMENT, message="no ptxas at /gone (--ptxas)", times=None)
DRIFTED = replace(
    FINE,
    result=Result.DRIFT,
    message="it compiles to other code than was pinned: code, registers 70 → 71",
    times=None,
    drift=Drift(
        (FieldChange(0, 0, "code_sha256", "a", "b"), FieldChange(0, 0, "registers", 70, 71)),
        (),
        [[{**PIN.artifacts[0][0], "registers": 71}]],
    ),
)


def report(*checked: Checked, mode: str = "measured", **fields: Any) -> CheckReport:
    plain = CheckReport(
        mode, checked, ENVIRONMENT, "measured now", "2026-12-01T10:15:00+0000", total=len(checked)
    )
    return replace(plain, **fields)


def row_of(lines: Sequence[str], result: str) -> list[str]:
    (row,) = [line for line in lines if f"  {result}  " in f"{line}  "]
    return re.split(r"  +", row)


def test_the_table_names_both_baselines_and_the_floor() -> None:
    lines = aligned(report(FINE, REGRESSION).rows())
    assert re.split(r"  +", lines[0]) == [
        "pin",
        "result",
        "over own config",
        "over no ACF",
        "A/A floor",
        "moved",
    ]
    assert row_of(lines, "fine") == [
        NAME,
        "fine",
        "1.0255 (1.0235 to 1.0275) FASTER",
        "1.0061 (1.0041 to 1.0081) FASTER",
        "0.50%",
        "nothing",
    ]
    assert row_of(lines, "regression")[2:4] == ["0.9712 (0.9692 to 0.9732) SLOWER", "-"]
    assert row_of(lines, "regression")[-1] == (
        "environment (triton 3.6.0 → 3.9.0), pin (registers 70 → 71), baseline unknown"
    )


def test_the_table_of_recompiled_pins_shows_both_values() -> None:
    lines = aligned(report(DRIFTED, mode="drift").rows())
    assert row_of(lines, "drift")[:6] == [NAME, "drift", "changed", "same", "70 → 71", "0"]


def test_earlier_speedups_stand_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "history" / "softmax.jsonl"
    for one in (FINE, REGRESSION, FINE, FINE, ELSEWHERE):
        append_history(path, [one], when="2026-12-01T10:15:00+0000", mode="measured", environment={})
    with path.open("a") as file:
        file.write('{"format": 99}\nnot json\n{"format": 1, "identity": "an')  # newer, broken, half written
    append_history(path, [UNREADABLE], when="2026-12-02T10:15:00+0000", mode="measured", environment={})
    history = read_history(path)
    assert len(history) == 6 and history[-1]["pin"] == "pins/x.json"
    lines = aligned(report(FINE, history=history).rows())
    assert row_of(lines, "fine")[5] == "0.9712, 1.0255, 1.0255"
    assert read_history(tmp_path / "none.jsonl") == []


def test_json_is_one_object_that_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(FINE, REGRESSION, DRIFTED, UNREADABLE), json=True, quiet=False)
    fields = json.loads(capsys.readouterr().out)
    assert fields["exit_code"] == 1 and fields["error"]["next_step"]
    fine, regression, drifted, unreadable = fields["pins"]
    assert fine["measured"]["shapes"][0]["over_no_acf"]["speedup"] == 1.0061
    assert regression["moved"]["environment"] == ["triton 3.6.0 → 3.9.0"]
    assert drifted["drift"]["pin"][1] == {"shape": 0, "launch": 0, "name": "registers", "then": 70, "now": 71}
    assert unreadable["kernel"] is None and unreadable["result"] == "unreadable"


def test_what_it_prints_says_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(FINE, REGRESSION), json=False, quiet=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 regression, 1 fine"
    assert (
        lines[1]
        == "  NVIDIA H200, driver 580.159.04, helion 1.5.0, triton 3.6.0, torch 2.11.0, ptxas 13.3.73"
    )
    assert lines[-2:] == [
        f"{NAME}: regression: slower than the kernel's own config",
        "  next: remove the pin, or tune again in this environment",
    ]
    print_report(report(FINE, REGRESSION), json=False, quiet=True)
    assert capsys.readouterr().out == "1 regression, 1 fine\n"


@pytest.mark.parametrize(
    ("checked", "code"),
    [((FINE, AMBIGUOUS), 0), ((FINE, REGRESSION), 1), ((UNREADABLE, FINE), 2), ((ELSEWHERE, FINE), 3)],
)
def test_the_command_ends_with_the_worst_result(checked: tuple[Checked, ...], code: int) -> None:
    end = report(*checked).end()
    assert (end.exit_code if end else 0) == code


def test_an_interrupted_check_says_how_far_it_came() -> None:
    end = report(FINE, total=3).end()
    assert end is not None and end.exit_code == 130 and "1 of 3 pins" in end.what


# JUnit


def suite(*checked: Checked, **fields: Any) -> Xml.Element:
    text = junit_text(report(*checked, **fields))
    SCHEMA.validate(text)
    (found,) = Xml.fromstring(text.encode())
    return found


def test_junit_follows_the_schema_whatever_the_result() -> None:
    found = suite(FINE, REGRESSION, AMBIGUOUS, FAILED, UNREADABLE, ELSEWHERE, DRIFTED)
    counts = {name: found.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "3", "errors": "2", "skipped": "1"}
    assert [[child.tag for child in case] for case in found.iter("testcase")] == [
        ["system-out"],
        ["failure", "system-out"],
        ["skipped", "system-out"],
        ["failure", "system-out"],
        ["error", "system-out"],
        ["error", "system-out"],
        ["failure", "system-out"],
    ]


def test_junit_names_the_pin_and_says_what_happened() -> None:
    (case,) = suite(REGRESSION).iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("helitune.softmax.sm_90", "f16[4096,2560]")
    failure = case.find("failure")
    assert failure is not None and failure.get("message") == "slower than the kernel's own config"
    assert failure.text is not None and "triton 3.6.0 → 3.9.0" in failure.text
    output = case.findtext("system-out")
    assert output is not None and "over own config: 0.9712 SLOWER (below_floor)" in output


def test_junit_holds_a_message_that_xml_cannot() -> None:
    (case,) = suite(FAILED).iter("testcase")
    failure = case.find("failure")
    assert failure is not None and "<error>" in (failure.get("message") or "")
    assert "\x1b" not in (failure.get("message") or "")


def test_junit_of_an_interrupted_check_is_still_a_document() -> None:
    assert suite(total=2).get("tests") == "0"


@pytest.mark.parametrize(
    ("right", "wrong"), [(' tests="1"', ""), ('time="31.200"', 'time="-1"'), ("system-out", "output")]
)
def test_the_schema_refuses_what_is_no_junit(right: str, wrong: str) -> None:
    text = junit_text(report(FINE))
    assert SCHEMA.is_valid(text) and not SCHEMA.is_valid(text.replace(right, wrong))


# Markdown


class Cells(HTMLParser):
    """The rows of the tables of an HTML document, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self._cell: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.rows[-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def rendered(*checked: Checked, **fields: Any) -> Cells:
    markdown = markdown_text(report(*checked, **fields))
    return Cells(MarkdownIt("commonmark").enable("table").render(markdown))


def test_markdown_renders_as_one_table_with_a_row_for_each_pin() -> None:
    found = rendered(FINE, REGRESSION, AMBIGUOUS)
    assert found.tags.count("table") == 1 and found.tags.count("details") == 3
    assert [row[:2] for row in found.rows] == [
        ["pin", "result"],
        [NAME, "✅ fine"],
        [NAME, "❌ regression"],
        [NAME, "⚠️ ambiguous"],
    ]
    assert {len(row) for row in found.rows} == {6}
    assert found.rows[1][2] == "1.0255 (1.0235 to 1.0275) FASTER"


def test_markdown_explains_each_verdict_and_opens_the_failures() -> None:
    text = markdown_text(report(FINE, REGRESSION))
    assert text.count("<details open>") == 1 and text.count("<details>") == 1
    assert "floor 0.50%, the largest of" in text
    assert "moved since it was pinned: environment (triton 3.6.0 → 3.9.0)" in text


def test_markdown_keeps_a_hostile_message_as_text() -> None:
    moved = Moved((Change("triton", "a|b", "<script>", Weight.UNUSED),), Side(None), Side(None))
    found = rendered(replace(FAILED, moved=moved), UNREADABLE)
    assert {len(row) for row in found.rows} == {len(found.rows[0])}
    assert "script" not in found.tags and "error" not in found.tags and "a" not in found.tags
