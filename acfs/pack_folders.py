"""Where packs have a name: those that come with helitune, and the user's own.

The user's lie in HELITUNE_PACK_DIR, else in the XDG data home: `<data>/helitune/packs/<name>/`.
"""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path

PACKS_VARIABLE = "HELITUNE_PACK_DIR"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def is_pack_name(text: str) -> bool:
    """True for a name that a pack may have: letters, digits, dots, dashes and underscores, at most 64."""
    return _NAME.fullmatch(text) is not None


def users_folder() -> Path | None:
    """The absolute folder of the user's packs, whether or not it is there; None without a home."""
    given = os.environ.get(PACKS_VARIABLE)
    if given:
        return Path(given).absolute()
    xdg = os.environ.get("XDG_DATA_HOME", "")
    if Path(xdg).is_absolute():  # the XDG specification: a relative one is to be ignored
        return Path(xdg) / "helitune" / "packs"
    try:
        return Path.home().absolute() / ".local" / "share" / "helitune" / "packs"
    except RuntimeError:  # no HOME and no entry in the password database
        return None


def users_packs() -> dict[str, Path]:
    """The user's packs by name, sorted; none where their folder cannot be read."""
    folder = users_folder()
    return _named_folders(folder) if folder is not None else {}


def shipped_packs() -> dict[str, Path]:
    """The packs that come with helitune by name, sorted."""
    return _named_folders(Path(str(files("helitune.acfs") / "data")))


def _named_folders(folder: Path) -> dict[str, Path]:
    try:
        return {
            path.name: path for path in sorted(folder.iterdir()) if is_pack_name(path.name) and path.is_dir()
        }
    except OSError:
        return {}
