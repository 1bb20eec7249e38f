"""Where a pin lies, and how its files get there: all of them, after verification, or none.

    pins/_helion_aot_<file>_cuda_sm<NN>.py      what @helion.aot_kernel() loads: see pin_aot_form.py
    pins/<kernel>/<gpu>/<shapes>.json           our record
                        <shapes>.helion.json    what helion.Config.load reads
                        <shapes>.py             the tuned kernel variant as a Python file
                        <sha256>.acf, NOTICE    where the pin has an ACF

The Helion form holds the ACF's absolute path, since a relative one would depend on where a process runs. After
the folder was moved use the Python form, which finds the ACF beside itself, or write the pin again.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helitune.acfs.errors import InputError, MachineError
from helitune.acfs.paths import atomic_write
from helitune.search.args import format_shape
from helitune.search.dtypes import contiguous_strides
from helitune.search.workload import Argument, ScalarArg, Shape

from .pin import Pin, pin_text

NOTICE = """The .acf files in this folder are Software Outputs of NVIDIA CompileIQ.
© NVIDIA Corporation, 2026.
They are binary compiler configurations: they may be distributed under the CompileIQ licence, and must not be reverse engineered.
"""  # noqa: E501  the notice of the packs, word for word

MAX_SLUG = 60
"""Characters of a file name that come from the shapes; a longer one is cut and gets a hash."""

SaveHelionForm = Callable[[Mapping[str, Any], Path], None]
"""Writes a config to a path as helion.Config.save does; Helion is only in compile processes."""


def slug(shapes: tuple[Shape, ...]) -> str:
    """A file name and Python module name for shapes: "f16_4096x2560", several joined by two underscores."""
    text = "__".join("_".join(map(_argument_slug, shape)) for shape in shapes) or "none"
    plain = re.sub(r"\W", "", text, flags=re.ASCII)
    if plain == text and len(text) <= MAX_SLUG:
        return text
    digest = hashlib.sha256("\n".join(map(_guarded_text, shapes)).encode()).hexdigest()[:8]
    return f"{plain[:MAX_SLUG]}_{digest}"


def _argument_slug(argument: Argument) -> str:
    if isinstance(argument, ScalarArg):
        # text may hold anything: it is left to the hash
        number = repr(argument.value).replace(".", "p").replace("-", "m").replace("+", "")
        return f"v{number}"
    text = f"{argument.dtype}_{'x'.join(map(str, argument.shape)) or 'scalar'}"
    if argument.strides != contiguous_strides(argument.shape):
        text += f"_s{'x'.join(map(str, argument.strides))}"
    return text


def _guarded_text(shape: Shape) -> str:
    """The shape without what fills its tensors, which a pin does not guard."""
    return " ".join(
        repr(a.value) if isinstance(a, ScalarArg) else f"{a.dtype}{list(a.shape)}{list(a.strides)}"
        for a in shape
    )


def shown_shapes(shapes: tuple[Shape, ...]) -> list[str]:
    """Each shape in the notation of --args."""
    return [format_shape(shape).replace("~given", "") for shape in shapes]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the files of one pin go: an absolute folder, and the name that they share."""

    folder: Path
    stem: str

    @classmethod
    def of(cls, pin: Pin, root: Path) -> Place:
        """The place of `pin` below the folder `root`.

        Raises InputError where `root` is no folder, and where the pin has an ACF and the path white space.
        """
        folder = root.absolute() / pin.kernel / pin.gpu
        for part in (folder, folder.parent, root.absolute()):
            if part.exists() and not part.is_dir():
                next_step = "give -o a folder, or a name that is free"
                raise InputError(
                    "a file is where the pin's folder goes", where=str(part), next_step=next_step
                )
        if pin.acf is not None and any(character.isspace() for character in str(folder)):
            raise InputError(
                "the pin's folder has white space in its path, which Triton cannot pass to ptxas",
                where=str(folder),
                next_step="give -o a folder without",
            )
        return cls(folder, slug(pin.shapes))

    @property
    def json(self) -> Path:
        """Our record of the pin."""
        return self.folder / f"{self.stem}.json"

    @property
    def helion(self) -> Path:
        """The Helion form."""
        return self.folder / f"{self.stem}.helion.json"

    @property
    def python(self) -> Path:
        """The Python form."""
        return self.folder / f"{self.stem}.py"


class StagedPin:
    """A pin written under hidden names in its own folder, so that it can be verified in place.

    The ACF gets its final name at once: it is named by its content, and the Helion form holds that path.
    """

    def __init__(self, place: Place, pin: Pin) -> None:
        self.place = place
        self.pin = pin
        hidden = Place(place.folder, f".{secrets.token_hex(8)}")
        self.json, self.helion, self.python = hidden.json, hidden.helion, hidden.python
        self._created: list[Path] = []

    def write(self, acf: bytes | None, python_text: str, save_helion: SaveHelionForm) -> None:
        """Write all files; MachineError where that fails. Call `commit` or `discard` afterwards."""
        self._make_folder()
        if self.pin.acf is not None:
            assert acf is not None
            self._write_acf(self.place.folder / self.pin.acf.file, acf)
        self._created += [self.json, self.helion, self.python]
        atomic_write(self.json, pin_text(self.pin).encode())
        atomic_write(self.python, python_text.encode())
        save_helion(self.helion_config(), self.helion)

    def helion_config(self) -> dict[str, Any]:
        """The config of the Helion form: with the ACF's absolute path where there is one."""
        if self.pin.acf is None:
            return self.pin.config
        acf = self.place.folder / self.pin.acf.file
        return {**self.pin.config, "advanced_controls_file": str(acf)}

    def commit(self) -> None:
        """Give the files their names, our record last, and drop the ACF of a pin that was there before."""
        before = _acf_file(self.place.json)
        try:
            self.helion.replace(self.place.helion)
            self.python.replace(self.place.python)
            self.json.replace(self.place.json)
        except OSError as error:
            raise _cannot_write(error, self.place.folder) from error
        if before is not None:
            _drop_unused(self.place.folder, before)

    def discard(self) -> None:
        """Remove whatever `write` created; what was there before stays as it was."""
        for path in reversed(self._created):
            try:
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
            except OSError:
                pass  # a folder that somebody else has put something into

    def _make_folder(self) -> None:
        folder = self.place.folder
        self._created = [path for path in (*reversed(folder.parents), folder) if not path.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(error, folder) from error

    def _write_acf(self, path: Path, content: bytes) -> None:
        """An existing file with another content is damaged, and repaired: the name stands for one content."""
        if not path.exists():
            self._created.append(path)
        atomic_write(path, content)
        notice = path.with_name("NOTICE")
        if not notice.exists():
            self._created.append(notice)
            atomic_write(notice, NOTICE.encode())


def _acf_file(json_path: Path) -> str | None:
    """The ACF that the pin at `json_path` names, as far as there is one that can be read."""
    try:
        file = json.loads(json_path.read_bytes())["acf"]["file"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return file if isinstance(file, str) and re.fullmatch(r"[0-9a-f]{64}\.acf", file) else None


def _drop_unused(folder: Path, acf_file: str) -> None:
    named = any(acf_file in path.read_text(errors="replace") for path in folder.glob("*.json"))
    if not named:
        (folder / acf_file).unlink(missing_ok=True)
        notice = folder / "NOTICE"
        if not any(folder.glob("*.acf")) and notice.exists() and notice.read_text() == NOTICE:
            notice.unlink()


def _cannot_write(error: OSError, folder: Path) -> MachineError:
    return MachineError(
        f"cannot write the pin: {error.strerror or error}",
        where=str(folder),
        next_step="give -o a folder that you can write to",
    )
