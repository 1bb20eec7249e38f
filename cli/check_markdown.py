"""A check as Markdown, as a comment in a pull request or the summary of a job shows it."""

from __future__ import annotations

from helitune.results.checked import Checked, Result
from helitune.results.verdict_words import explain

from .check_report import CheckReport

SIGNS = {0: "✅", 1: "❌", 2: "❌", 3: "⚠️"}
"""By exit code; what is neither fine nor a failure has the warning sign too."""

_UNSURE = (Result.NO_GAIN, Result.AMBIGUOUS)


def markdown_text(report: CheckReport) -> str:
    """The whole report: headline, environment, table, and for each pin what it rests on."""
    lines = [
        f"### helitune check: {report.headline}",
        "",
        f"{_plain(report.where)}  ",
        _plain(report.how),
        "",
    ]
    lines += _table(report)
    for one in report.checked:
        lines += ["", *_details(one)]
    return "\n".join(lines) + "\n"


def sign(one: Checked) -> str:
    """The sign of a result."""
    return "⚠️" if one.result in _UNSURE else SIGNS[one.exit_code]


def _table(report: CheckReport) -> list[str]:
    headings, *rows = report.rows()
    signs = {one.result: sign(one) for one in report.checked}
    lines = [_row(headings), "|" + "---|" * len(headings)]
    for name, result, *cells in rows:
        lines.append(_row([_code(name), f"{signs[Result(result)]} {result}", *map(_plain, cells)]))
    return lines


def _details(one: Checked) -> list[str]:
    """A pin's message, next step and decisions; folded away unless it is a failure."""
    opened = " open" if one.exit_code else ""
    lines = [f"<details{opened}><summary>{_html(one.name)}: {one.result}</summary>", ""]
    lines += [f"- {_plain(one.message)}"]
    if one.next_step:
        lines.append(f"- next: {_plain(one.next_step)}")
    if one.pin is not None:
        lines.append(f"- moved since it was pinned: {_plain(one.moved.words())}")
    if one.times is not None and one.times.failed is None:
        for shape, times in zip(one.shapes, one.times.shapes, strict=True):
            lines += [
                "",
                f"{_code(shape)} beside the kernel's own config:",
                "",
                *_explained(explain(times.over_own)),
            ]
            if times.over_no_acf is not None:
                lines += [
                    "",
                    "beside its config without the ACF:",
                    "",
                    *_explained(explain(times.over_no_acf)),
                ]
    return [*lines, "", "</details>"]


def _explained(decisions: list[str]) -> list[str]:
    return [f"- {_plain(decision)}" for decision in decisions]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    """Text as it is, in the font of code."""
    return "`" + " ".join(text.split()).replace("`", "'") + "`"


def _plain(text: str) -> str:
    """Text on one line that Markdown leaves as it is."""
    flat = _html(" ".join(text.split()))
    for character in "\\`*_[]":
        flat = flat.replace(character, f"\\{character}")
    return flat


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
