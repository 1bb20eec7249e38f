"""The ptxas that ACFs are compiled with: which one, its version, its hash.

It is never the one on the PATH: an ACF fits one ptxas version, so which one runs must be a decision.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from helitune.acfs.errors import MachineError

PTXAS_VARIABLE = "HELITUNE_PTXAS"
OLDEST = Version("13.3")  # the first whose ptxas knows --apply-controls
VERSION_TIMEOUT_S = 20.0

_INSTALL = "pip install 'nvidia-cuda-nvcc==13.3.*'"
_ELSEWHERE = f"give another with --ptxas or {PTXAS_VARIABLE}, or {_INSTALL} and give none"
_VERSION_LINE = re.compile(r"release \d+\.\d+, V(\d+(?:\.\d+)+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ptxas:
    """One ptxas binary: absolute path, full version ("13.3.73") and the SHA-256 of the file."""

    path: Path
    version: str
    sha256: str


def find_ptxas(override: str | None) -> Ptxas:
    """The ptxas to use: `override` (--ptxas), else HELITUNE_PTXAS, else the one of nvidia-cuda-nvcc.

    The first of these that is given is taken or refused; there is no falling through to the next.
    Raises MachineError when it is missing, cannot be run, or is older than 13.3.
    """
    path, origin = _choose(override)
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MachineError(f"no ptxas at {path}: {reason}", where=origin, next_step=_ELSEWHERE) from error
    if path.is_dir():
        what = f"{path} is a folder, not a ptxas"
        raise MachineError(what, where=origin, next_step="give the path of the binary itself")
    version, sha256 = _identify(path, origin, (stat.st_mtime_ns, stat.st_size, stat.st_ino))
    if Version(version) < OLDEST:
        what = f"{path} is version {version}: ACFs need {OLDEST} or newer"
        raise MachineError(what, where=origin, next_step=_ELSEWHERE)
    return Ptxas(path, version, sha256)


def toolkit(version: str) -> str:
    """The CUDA toolkit a ptxas version belongs to: "13.3" for "13.3.73"."""
    parsed = Version(version)
    return f"{parsed.major}.{parsed.minor}"


def _choose(override: str | None) -> tuple[Path, str]:
    for given, origin in ((override, "--ptxas"), (os.environ.get(PTXAS_VARIABLE), PTXAS_VARIABLE)):
        if given:
            return Path(given).absolute(), origin
    # the wheels of NVIDIA share the namespace package `nvidia`: looking its folders up imports nothing
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder).absolute() / "cu13" / "bin" / "ptxas"
        if path.is_file():
            return path, "nvidia-cuda-nvcc"
    next_step = f"{_INSTALL}, or give one with --ptxas or {PTXAS_VARIABLE}"
    raise MachineError("no ptxas found: the package nvidia-cuda-nvcc is not installed", next_step=next_step)


@lru_cache(maxsize=8)
def _identify(path: Path, origin: str, stamp: tuple[int, int, int]) -> tuple[str, str]:
    # `stamp` is only there to ask again when the file has changed
    answer = _ask_version(path, origin)
    found = _VERSION_LINE.search(answer)
    if not found:
        words = " ".join(answer.split())[:120] or "nothing"
        what = f"{path} is no ptxas: --version answers {words!r}"
        raise MachineError(what, where=origin, next_step=_ELSEWHERE)
    with path.open("rb") as handle:
        return found[1], hashlib.file_digest(handle, "sha256").hexdigest()


def _ask_version(path: Path, origin: str) -> str:
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        what = f"cannot run {path}: {error.strerror or error}"
        next_step = f"make it executable (chmod +x), or {_ELSEWHERE}"
        raise MachineError(what, where=origin, next_step=next_step) from error
    try:
        answer, _ = process.communicate(timeout=VERSION_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        what = f"{path} --version does not answer within {VERSION_TIMEOUT_S:g} s"
        raise MachineError(what, where=origin, next_step=_ELSEWHERE) from error
    finally:
        _end(process)
    if process.returncode != 0:
        what = f"{path} --version fails with status {process.returncode}: {answer.strip()[:120]}"
        raise MachineError(what, where=origin, next_step=_ELSEWHERE)
    return answer


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        # a wrapper script's child would keep the pipe open: the whole group goes
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
