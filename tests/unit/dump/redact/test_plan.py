"""Where secrets can be in a kind of message."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.config.dump_redaction import parse_redaction
from interpose.cri.methods import METHODS
from interpose.dump.redact.plan import Plans


def planned(redaction: str = "default") -> set[str]:
    """The messages that have to be looked through."""
    plans = Plans(parse_redaction(redaction))
    names = {name for method in METHODS.values() for name in (method.request, method.response)}
    return {name for name in names if plans.of(getattr(cri, name).DESCRIPTOR) is not None}


@pytest.mark.parametrize(
    "name",
    ["VersionRequest", "StopContainerRequest", "RunPodSandboxResponse", "ImageFsInfoResponse", "ExecSyncRequest"],
)
def test_a_message_that_cannot_hold_a_secret_has_no_plan(name: str) -> None:
    """It passes without being parsed."""
    assert name not in planned()


def test_methods_said_to_have_secrets_have_a_plan() -> None:
    """The table of methods and the plans agree."""
    found = planned()
    missing = [m.name for m in METHODS.values() if m.secrets and not {m.request, m.response} & found]
    assert missing == []


def test_with_commands_hidden_more_is_looked_through() -> None:
    """The plan follows the redaction."""
    assert planned("default,command") - planned() == {"ExecSyncRequest", "ExecRequest"}


def test_without_output_less_is_looked_through() -> None:
    """The plan follows the redaction."""
    assert planned() - planned("default,-output") == {"ExecSyncResponse"}


def test_with_unknown_fields_hidden_everything_is_looked_through() -> None:
    """They can be anywhere."""
    assert len(planned("strict")) == len({n for m in METHODS.values() for n in (m.request, m.response)})


def test_a_plan_hides() -> None:
    """And leaves what it left there itself."""
    plan = Plans(parse_redaction("default")).of(cri.ExecSyncResponse.DESCRIPTOR)
    assert plan is not None
    message = cri.ExecSyncResponse(stdout=b"x")
    for _time in range(2):
        plan(message)
        assert message == cri.ExecSyncResponse(stdout=b"<redacted>")


def test_where_secrets_are_unknown_fields_are_looked_for() -> None:
    """In messages, too, that have nothing else to hide."""
    plan = Plans(parse_redaction("default")).of(cri.CreateContainerResponse.DESCRIPTOR, secrets=True)
    assert plan is not None
    message = cri.CreateContainerResponse.FromString(b"\n\x01c\xa2\x06\x06SECRET")
    plan(message)
    assert message.SerializeToString() == b"\n\x01c"
