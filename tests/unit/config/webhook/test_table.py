"""What the webhook's table says beyond single rows; that rows and fields agree is tested for all programs together."""

import pytest

from interpose.config.load import SettingText, load
from interpose.config.webhook.table import WEBHOOK
from interpose.errors import ConfigError


def problems(**flags: str) -> list[str]:
    """What is wrong with these settings."""
    given = {key.replace("__", "."): SettingText(text, f"flag {key}") for key, text in flags.items()}
    try:
        load(WEBHOOK, flags=given, env={})
    except ConfigError as error:
        return error.problems
    return []


def test_reviews_and_metrics_cannot_share_an_address() -> None:
    """Unless the system chooses the port."""
    assert problems(listen=":9000", metrics_listen=":9000") == [
        "flag metrics_listen: metrics_listen is the address of listen: ':9000', which serves them too"
    ]
    assert problems(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0") == []


def test_all_requests_together_have_room_for_one() -> None:
    """Else the largest could never be answered."""
    (problem,) = problems(limits__body="2MiB", limits__buffered="1MiB")
    assert problem.endswith("1048576 bytes are less than one request may have (limits.body: 2097152)")


@pytest.mark.parametrize("text", ["", " , ", "resources", "intel.com/", "/x", "Intel.com/x", "a.b/c d", "a/b/c"])
def test_names_of_annotations_have_a_domain(text: str) -> None:
    """A name without one belongs to the user of the cluster."""
    (problem,) = problems(pods__annotation=text)
    assert "intel.com/resources" in problem


def test_names_of_annotations_are_kept_once_and_in_order() -> None:
    """The first is the one that messages name."""
    given = {"pods.annotation": SettingText("b.example/x, a.example/x,b.example/x", "flag")}
    assert load(WEBHOOK, flags=given, env={}).settings.pods.annotation == ("b.example/x", "a.example/x")
