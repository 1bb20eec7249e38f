"""A check as JUnit XML, which every CI service shows: one test case a pin.

The dialect is that of Ant and Jenkins: `failure` for a negative verdict, `error` for a pin that cannot be read or
an environment that does not fit, `skipped` for what is neither fine nor a failure.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from helitune.results.checked import Checked, Result

from .check_report import CheckReport

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold; messages of compilers may have them."""

_TAGS = {1: "failure", 2: "error", 3: "error"}


def junit_text(report: CheckReport) -> str:
    """The XML document."""
    cases = [_case(one) for one in report.checked]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": f"{sum(one.elapsed_s for one in report.checked):.3f}",
    }
    root = Xml.Element("testsuites", {"name": "helitune check", **counts})
    suite = Xml.SubElement(
        root, "testsuite", {"name": f"helitune.{report.mode}", **counts, "timestamp": report.when[:19]}
    )
    properties = Xml.SubElement(suite, "properties")
    for name, value in (("environment", report.where), ("method", report.how)):
        Xml.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    suite.extend(cases)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(one: Checked) -> Xml.Element:
    pin = one.pin
    case = Xml.Element(
        "testcase",
        {
            "classname": f"helitune.{pin.kernel}.{pin.gpu}" if pin else "helitune.pin",
            "name": _clean("; ".join(one.shapes) or str(one.path)),
            "time": f"{one.elapsed_s:.3f}",
        },
    )
    tag = _TAGS.get(one.exit_code)
    if tag is not None:
        found = Xml.SubElement(case, tag, {"type": one.result.value, "message": _clean(one.message)})
        found.text = _clean(f"{one.path}\nmoved: {one.moved.words()}\nnext: {one.next_step or '-'}")
    elif one.result is not Result.FINE:
        Xml.SubElement(case, "skipped", {"message": _clean(f"{one.result}: {one.message}")})
    Xml.SubElement(case, "system-out").text = _clean(_told(one))
    return case


def _told(one: Checked) -> str:
    """What was measured, or what recompiling changed, in lines."""
    lines = [f"{one.result}: {one.message}", f"moved: {one.moved.words()}"]
    for shape, times in zip(one.shapes, one.times.shapes if one.times else (), strict=False):
        for label, verdict in (("own config", times.over_own), ("no ACF", times.over_no_acf)):
            if verdict is not None and verdict.numbers.speedup is not None:
                lines.append(
                    f"{shape} over {label}: {verdict.numbers.speedup:.4f} {verdict.status} ({verdict.reason})"
                )
    return "\n".join(lines)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
