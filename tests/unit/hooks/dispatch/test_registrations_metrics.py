"""Metrics of registration files."""

from collections.abc import Iterable
from pathlib import Path

from interpose.hooks.dispatch.registrations import Registrations, registration_collector
from interpose.metrics import Family, Sample
from interpose.testing.hookserver import register


def test_registrations_and_errors_are_counted(tmp_path: Path) -> None:
    """How many are in force, how many cannot be used now, and how often one could not; names of files are no labels."""
    register(tmp_path, "good", "/run/good.sock")
    (tmp_path / "bad.json").write_text("{")
    registrations = Registrations(str(tmp_path))
    registrations.load()
    collect = registration_collector(registrations)
    assert shown(collect()) == {
        "interpose_hook_registrations": 1,
        "interpose_hook_registrations_unusable": 1,
        "interpose_hook_registration_errors_total": 1,
    }
    (tmp_path / "bad.json").unlink()
    registrations.load()
    assert shown(collect())["interpose_hook_registrations_unusable"] == 0
    assert shown(collect())["interpose_hook_registration_errors_total"] == 1


def test_a_relay_without_bad_files_says_zero(tmp_path: Path) -> None:
    """From the start: a counter that appears with its first event hides that event from increase()."""
    found = shown(registration_collector(Registrations(str(tmp_path)))())
    assert found["interpose_hook_registrations_unusable"] == 0
    assert found["interpose_hook_registration_errors_total"] == 0


def shown(families: Iterable[Family]) -> dict[str, float]:
    """The one sample of each family, which has no labels."""
    found = {}
    for family in families:
        [sample] = family.samples
        assert isinstance(sample, Sample)
        assert not sample.labels
        found[family.name] = sample.value
    return found
