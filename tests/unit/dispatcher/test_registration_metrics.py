"""Metrics of registration files."""

from pathlib import Path

from interpose.dispatcher.registration_metrics import registration_collector
from interpose.dispatcher.registrations import Registrations
from interpose.testing.hookserver import register


def test_registrations_and_errors_are_counted(tmp_path: Path) -> None:
    """How many are in force, and how often which file could not be used."""
    register(tmp_path, "good", "/run/good.sock")
    (tmp_path / "bad.json").write_text("{")
    registrations = Registrations(str(tmp_path))
    registrations.load()
    found = {family.name: family.samples for family in registration_collector(registrations)()}
    assert [one.value for one in found["interpose_hook_registrations"]] == [1]  # type: ignore[union-attr]
    errors = found["interpose_hook_registration_errors_total"]
    assert [(dict(one.labels), one.value) for one in errors] == [({"file": "bad.json"}, 1)]  # type: ignore[union-attr]
