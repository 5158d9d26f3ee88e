"""How a command ended: what we say, and what we make of what others say."""

import json

import pytest

from interpose.net.streaming.exit_status import Outcome, as_words, exited, failure, read, read_words, success


def test_what_we_say_is_what_kubernetes_says() -> None:
    """Field by field."""
    assert json.loads(success()) == {"metadata": {}, "status": "Success"}
    assert json.loads(exited(3)) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
    assert json.loads(failure("no such container")) == {
        "metadata": {},
        "status": "Failure",
        "message": "Internal error occurred: no such container",
        "reason": "InternalError",
        "details": {"causes": [{"message": "no such container"}]},
        "code": 500,
    }


@pytest.mark.parametrize("code", [0, 1, 137, 255, -1])
def test_exit_codes_are_read_again(code: int) -> None:
    """0 is success."""
    assert read(exited(code)) == Outcome(code)


def test_words_are_read_again() -> None:
    """They are what a user sees."""
    assert read(failure("gone")) == Outcome(None, "Internal error occurred: gone")


def test_old_protocols_have_words_only() -> None:
    """None for a good end."""
    assert as_words(success()) == b""
    assert as_words(exited(2)) == b"command terminated with non-zero exit code: 2"
    assert read_words(b"") == Outcome(0)
    assert read_words(b" it broke\n") == Outcome(None, "it broke")


def document(**values: object) -> bytes:
    return json.dumps({"status": "Failure", **values}).encode()


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (b"", Outcome(0)),
        (b" \n", Outcome(0)),
        (b"plain words", Outcome(None, "plain words")),
        (b"[1]", Outcome(None, "[1]")),
        (b"[" * 100_000, Outcome(None, "[" * 4096)),
        (b"\xff{", Outcome(None, "\ufffd{")),
        (document(message="it broke"), Outcome(None, "it broke")),
        (document(), Outcome(None, '{"status": "Failure"}')),
        (document(message=7), Outcome(None, '{"status": "Failure", "message": 7}')),
        (document(reason="NonZeroExitCode", message="m"), Outcome(None, "m")),
        (document(reason="NonZeroExitCode", message="m", details=[]), Outcome(None, "m")),
        (document(reason="NonZeroExitCode", message="m", details={"causes": 3}), Outcome(None, "m")),
        (document(reason="NonZeroExitCode", message="m", details={"causes": [1, {"reason": "x"}]}), Outcome(None, "m")),
        (
            document(reason="NonZeroExitCode", message="m", details={"causes": [{"reason": "ExitCode"}]}),
            Outcome(None, "m"),
        ),
        (
            document(reason="NonZeroExitCode", details={"causes": [{"reason": "ExitCode", "message": "12"}]}),
            Outcome(12),
        ),
        (
            document(
                reason="NonZeroExitCode", message="m", details={"causes": [{"reason": "ExitCode", "message": "--5"}]}
            ),
            Outcome(None, "m"),
        ),
    ],
)
def test_whatever_comes_is_read_as_something(raw: bytes, outcome: Outcome) -> None:
    """An exit code, or words; never an exception."""
    assert read(raw) == outcome
