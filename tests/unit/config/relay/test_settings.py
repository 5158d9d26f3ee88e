"""The relay's settings are frozen values with the documented defaults."""

from dataclasses import FrozenInstanceError

import pytest

from interpose.config.relay.settings import LimitSettings, RelaySettings


def test_settings_cannot_be_changed_after_the_fact() -> None:
    """Whoever holds settings may rely on them."""
    settings = RelaySettings()
    with pytest.raises(FrozenInstanceError):
        settings.listen = "/x"  # type: ignore[misc]


def test_settings_are_compared_by_value() -> None:
    """Two relays with the same settings have equal settings."""
    assert RelaySettings() == RelaySettings()
    assert RelaySettings(limits=LimitSettings(max_streams=7)) != RelaySettings()


def test_memory_is_bounded_by_the_defaults() -> None:
    """The default limits together stay within what a node can give: streams times window is 1 GiB at most."""
    limits = RelaySettings().limits
    assert limits.max_total_streams * limits.stream_window <= 1 << 30
