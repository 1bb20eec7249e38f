"""The worker's end of a channel: every call is answered, and one that leaves the host broken is the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest

from helitune.acfs.errors import InputError
from helitune.objectives.serve import serve

WITHIN_S = 10.0


class Host:
    """Answers, raises, or breaks, as it is asked."""

    def __init__(self, name: str = "", *, refuse: bool = False) -> None:
        if refuse:
            raise RuntimeError("no CUDA-capable device is detected")
        self.name = name
        self.broken = False

    def hello(self, *others: str) -> str:
        return " ".join(("hello from", self.name, *others))

    def fail(self, error: BaseException) -> None:
        raise error

    def break_down(self) -> None:
        self.broken = True
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nand more lines")

    def answer_with_a_lock(self) -> Any:
        return threading.Lock()


class Served:
    """A host served by a thread, and the other end of its channel."""

    def __init__(self, make_host: Any) -> None:
        self.channel, theirs = Pipe()
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, args=(theirs, make_host), daemon=True)
        self._thread.start()
        assert self.channel.recv() == os.getpid()

    def _serve(self, theirs: Connection, make_host: Any) -> None:
        try:
            with theirs:
                serve(theirs, make_host)
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.raised = error

    def __call__(self, method: str, *arguments: Any) -> Any:
        self.channel.send((method, arguments))
        assert self.channel.poll(WITHIN_S)
        return self.channel.recv()

    def ends(self) -> bool:
        self._thread.join(WITHIN_S)
        return not self._thread.is_alive()


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served(Host)
    assert served("load", {"name": "the GPU"}) == ("returned", None)
    yield served
    served.channel.close()
    assert served.ends()


def test_calls_are_answered_in_turn(served: Served) -> None:
    assert served("hello") == ("returned", "hello from the GPU")
    assert served("hello", "and", "me") == ("returned", "hello from the GPU and me")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("first line\nsecond"), ("ValueError", "first line")),
        (SystemExit(3), ("SystemExit", "3")),
        (KeyboardInterrupt(), ("KeyboardInterrupt", "KeyboardInterrupt")),
    ],
)
def test_what_a_call_raises_is_told_in_words_and_the_next_is_answered(
    error: BaseException, said: tuple[str, str], served: Served
) -> None:
    assert served("fail", error) == ("raised", said)
    assert served("hello")[0] == "returned"


def test_a_user_s_error_comes_back_as_it_is(served: Served) -> None:
    outcome, error = served("fail", InputError("what", where="where", next_step="next"))
    assert outcome == "raised" and isinstance(error, InputError)
    assert (error.what, error.where, error.next_step) == ("what", "where", "next")


def test_an_answer_that_cannot_be_sent_or_a_call_that_does_not_exist_is_a_failed_call(served: Served) -> None:
    assert served("answer_with_a_lock")[1][0] == "TypeError"
    assert served("no_such_method")[1][0] == "AttributeError"
    assert served("hello", 1)[1][0] == "TypeError"
    assert served("hello")[0] == "returned"


def test_a_broken_host_answers_once_and_no_more(served: Served) -> None:
    said = ("RuntimeError", "CUDA error: an illegal memory access was encountered")
    assert served("break_down") == ("broke", said)
    assert served.ends() and served.raised is None


def test_a_host_that_cannot_be_made_is_told_and_may_be_asked_for_again() -> None:
    served = Served(Host)
    outcome, said = served("load", {"refuse": True})
    assert (outcome, said) == ("raised", ("RuntimeError", "no CUDA-capable device is detected"))
    assert served("hello")[0] == "raised"
    assert served("load", {"name": "another"}) == ("returned", None)
    assert served("hello") == ("returned", "hello from another")


def test_a_host_without_memory_is_not_trusted_with_another_call(served: Served) -> None:
    served.channel.send(("fail", (MemoryError(),)))
    assert served.ends() and isinstance(served.raised, MemoryError)
    with pytest.raises(EOFError):
        served.channel.recv()


def test_it_ends_with_its_channel() -> None:
    served = Served(Host)
    served.channel.close()
    assert served.ends() and served.raised is None
