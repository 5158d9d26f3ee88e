"""How a command ended: what we say, and what we make of what others say."""

import json

import pytest

from interpose.net.streaming.exit_status import (
    ExitStatus,
    exit_document,
    failure_document,
    parse_plain_text,
    parse_status,
    success_document,
    to_plain_text,
)


def test_what_we_say_is_what_kubernetes_says() -> None:
    """Our status documents equal those of Kubernetes field by field."""
    assert json.loads(success_document()) == {"metadata": {}, "status": "Success"}
    assert json.loads(exit_document(3)) == {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: 3",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
    assert json.loads(failure_document("no such container")) == {
        "metadata": {},
        "status": "Failure",
        "message": "Internal error occurred: no such container",
        "reason": "InternalError",
        "details": {"causes": [{"message": "no such container"}]},
        "code": 500,
    }


@pytest.mark.parametrize("code", [0, 1, 137, 255, -1])
def test_exit_codes_are_read_again(code: int) -> None:
    """Exit codes survive the round trip, and 0 is success."""
    assert parse_status(exit_document(code)) == ExitStatus(code)


def test_words_are_read_again() -> None:
    """They are what a user sees."""
    assert parse_status(failure_document("gone")) == ExitStatus(None, "Internal error occurred: gone")


def test_old_protocols_have_words_only() -> None:
    """None for a good end."""
    assert to_plain_text(success_document()) == b""
    assert to_plain_text(exit_document(2)) == b"command terminated with non-zero exit code: 2"
    assert parse_plain_text(b"") == ExitStatus(0)
    assert parse_plain_text(b" it broke\n") == ExitStatus(None, "it broke")


def document(**values: object) -> bytes:
    return json.dumps({"status": "Failure", **values}).encode()


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (b"", ExitStatus(0)),
        (b" \n", ExitStatus(0)),
        (b"plain words", ExitStatus(None, "plain words")),
        (b"[1]", ExitStatus(None, "[1]")),
        (b"[" * 100_000, ExitStatus(None, "[" * 4096)),
        (b"\xff{", ExitStatus(None, "\ufffd{")),
        (document(message="it broke"), ExitStatus(None, "it broke")),
        (document(), ExitStatus(None, '{"status": "Failure"}')),
        (document(message=7), ExitStatus(None, '{"status": "Failure", "message": 7}')),
        (document(reason="NonZeroExitCode", message="m"), ExitStatus(None, "m")),
        (document(reason="NonZeroExitCode", message="m", details=[]), ExitStatus(None, "m")),
        (document(reason="NonZeroExitCode", message="m", details={"causes": 3}), ExitStatus(None, "m")),
        (
            document(reason="NonZeroExitCode", message="m", details={"causes": [1, {"reason": "x"}]}),
            ExitStatus(None, "m"),
        ),
        (
            document(reason="NonZeroExitCode", message="m", details={"causes": [{"reason": "ExitCode"}]}),
            ExitStatus(None, "m"),
        ),
        (
            document(reason="NonZeroExitCode", details={"causes": [{"reason": "ExitCode", "message": "12"}]}),
            ExitStatus(12),
        ),
        (
            document(
                reason="NonZeroExitCode", message="m", details={"causes": [{"reason": "ExitCode", "message": "--5"}]}
            ),
            ExitStatus(None, "m"),
        ),
    ],
)
def test_whatever_comes_is_read_as_something(raw: bytes, outcome: ExitStatus) -> None:
    """An exit code, or words; never an exception."""
    assert parse_status(raw) == outcome
