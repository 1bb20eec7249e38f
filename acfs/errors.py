"""The errors a user can meet: one line with what is wrong and where, and the next step.

Raised anywhere, caught once (cli/main.py), which prints `line()` and exits with `exit_code`.
They live in the lowest package because every other one raises them.
"""

from __future__ import annotations


class UserError(Exception):
    """What went wrong, where, and what to do next; `exit_code` is the process's exit status."""

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step
        self.reported = False
        """Whether a command has already put the error into what it printed on stdout."""

    def line(self) -> str:
        """One line: `what (where): next step`."""
        text = " ".join(self.what.split())
        if self.where:
            text += f" ({self.where})"
        if self.next_step:
            text += f"; {self.next_step}"
        return text

    def __str__(self) -> str:
        return self.line()

    def __reduce__(self) -> tuple[object, ...]:
        # errors cross process boundaries: keyword arguments do not survive the default pickling
        return (_rebuild, (type(self), self.what, self.where, self.next_step))


def _rebuild(kind: type[UserError], what: str, where: str, next_step: str) -> UserError:
    return kind(what, where=where, next_step=next_step)


class InputError(UserError):
    """The user's input is wrong (exit 2)."""

    exit_code = 2


class MachineError(UserError):
    """This machine cannot do it (exit 3)."""

    exit_code = 3


class NegativeVerdict(UserError):
    """A negative verdict: nothing beat the baseline, a regression, a wrong output (exit 1)."""

    exit_code = 1


class Interrupted(UserError):
    """The user or the system ended the command; what was finished is kept (exit 130)."""

    exit_code = 130
