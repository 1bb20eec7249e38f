"""The ACF of a pin for a pack."""

from __future__ import annotations

import json
from collections.abc import Set
from pathlib import Path

from helitune.acfs.content import MAX_ACF_BYTES, digest, read_at_most, shown
from helitune.acfs.errors import InputError
from helitune.objectives.json_fields import integer

from .pack_evidence import COMPILED, Entry, NotAccepted, Winner, judged
from .pin import PIN_FORMAT, Pin, PinnedAcf
from .pin_forms import shown_shapes

MAX_PIN_BYTES = 8 << 20
_NEXT_STEP = "name a .json file of helitune pin, or a folder of them"


def pin_winner(path: Path, allow: Set[str]) -> Winner | NotAccepted:
    """The ACF of the pin in the file `path`, accepted or not; InputError for a broken pin."""
    pin, evidence = _read_pin(path)
    if pin.acf is None:
        return NotAccepted(shown(str(path)), "the pin has no ACF")
    entry = Entry(
        source=shown(str(path)),
        kernel=pin.kernel,
        source_sha256=pin.source_sha256,
        reference=pin.reference,
        gpu=pin.gpu,
        shapes=tuple(shown_shapes(pin.shapes)),
        config=pin.config,
        fingerprint=pin.fingerprint,
        run=pin.run,
        evidence=evidence,
    )
    return judged(entry, allow, content=_pinned_content(path, pin.acf), ptxas=pin.acf.ptxas)


def _read_pin(path: Path) -> tuple[Pin, object]:
    """The pin and its evidence as recorded; InputError for a file that is no whole pin of a known format."""
    try:
        content = read_at_most(path, MAX_PIN_BYTES)
        fields = json.loads(content or b"null")
        if integer(fields, "format") > PIN_FORMAT:
            raise InputError("the pin is from the future", where=str(path), next_step="upgrade helitune")
        evidence = fields["evidence"]
        # judged by `accepted`; the identity leaves it out, and a Pin's field differs between versions
        pin = Pin.from_json({**fields, "evidence": COMPILED})
        unchanged = fields["identity"] == pin.identity()
    except OSError as error:
        what = f"cannot read the pin: {error.strerror or error}"
        raise InputError(what, where=str(path), next_step=_NEXT_STEP) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        what = f"not a pin: {type(error).__name__} {str(error)[:200]}"
        raise InputError(what, where=str(path), next_step=_NEXT_STEP) from error
    if not unchanged:
        what = "the pin was changed by hand: its identity is not that of its content"
        raise InputError(what, where=str(path), next_step="write it again with helitune pin")
    return pin, evidence


def _pinned_content(path: Path, acf: PinnedAcf) -> bytes:
    file = path.with_name(acf.file)
    try:
        content = read_at_most(file, MAX_ACF_BYTES) if file.is_file() else None
    except OSError:
        content = None
    if content is None or digest(content) != acf.sha256:
        what = f"the pin's ACF {acf.name} is missing or altered"
        raise InputError(
            what, where=str(file), next_step="put it back, or write the pin again with helitune pin"
        )
    return content
