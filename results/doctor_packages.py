"""Python and the packages that a tune needs: installed, of a version that fits, and importable."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from helitune.objectives.installed_stack import InstalledStack
from helitune.objectives.installed_stack_child import PACKAGES

from .doctor_check import Check

_MISSING = re.compile(r"No module named '(\w+)")
_KNOWN_ERRORS = {
    # helion 1.5.1 asks torch for a class that torch 2.11 does not have
    "IntelGPUError": "pip install helion==1.5.0, or a newer torch",
}


def python_check() -> Check:
    """Whether this Python is one that helitune supports."""
    found = platform.python_version()
    wanted = _supported_python()
    if wanted.contains(found, prereleases=True):
        return Check("python", "ok", found)
    return Check("python", "warn", f"{found}: helitune is for {wanted}", "make a venv with one of those")


def package_checks(stack: InstalledStack) -> Iterator[Check]:
    """A check for each package."""
    for name in PACKAGES:
        yield _package_check(name, stack)


def _package_check(name: str, stack: InstalledStack) -> Check:
    found = stack.about(name)
    version, error = str(found["version"]), str(found["error"])
    wanted = _requirement(name)
    install = f"pip install '{wanted or name}'"
    if error:
        what = f"{version} does not import: {error}" if version else error
        return Check(name, "fail", what, _known_fix(error) or install)
    if wanted and version and not wanted.specifier.contains(version, prereleases=True):
        return Check(name, "warn", f"{version}: helitune is for {wanted.specifier}", install)
    return Check(name, "ok", version or "importable, of an unknown version")


def _known_fix(error: str) -> str:
    """The fix that the error itself tells, or ""."""
    missing = _MISSING.search(error)
    if missing:
        return f"pip install {missing[1]}"
    return next((fix for sign, fix in _KNOWN_ERRORS.items() if sign in error), "")


def _supported_python() -> SpecifierSet:
    try:
        return SpecifierSet(metadata("helitune")["Requires-Python"] or "")
    except PackageNotFoundError:
        return SpecifierSet()


def _requirement(name: str) -> Requirement | None:
    """What helitune's own metadata ask of a package, or None where helitune is not installed but on the path."""
    try:
        wanted = [Requirement(line) for line in requires("helitune") or ()]
    except PackageNotFoundError:
        return None
    return next((one for one in wanted if one.name == name and one.marker is None), None)
