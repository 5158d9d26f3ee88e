"""The policy of an installed package: found by its entry point, or a problem that names it."""

from pathlib import Path

import pytest

from interpose.core.policy.external import ExternalOptions
from interpose.errors import ConfigError
from interpose.resmgr.config.external_policy import GROUP
from interpose.resmgr.config.sources import HostAccess


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a policy, and with an entry point that refers to something else."""
    (tmp_path / "interpose_test_policy.py").write_text("class Mine:\n    pass\n\n\nnumber = 7\n")
    info = tmp_path / "interpose_test_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: interpose-test-policy\nVersion: 1.0\n")
    points = "mine = interpose_test_policy:Mine\nnumber = interpose_test_policy:number\n"
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_entry_point_is_loaded() -> None:
    """What else the options say stays."""
    loaded = HostAccess().load_policy(ExternalOptions(entry_point="mine", options={"a": 1}))
    assert loaded.maker is not None
    assert getattr(loaded.maker, "__name__", "") == "Mine"
    assert (loaded.entry_point, loaded.options) == ("mine", {"a": 1})


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nobody", "no installed package has an entry point 'nobody' in interpose.policies; there are: mine, number"),
        ("number", "refers to int, not to a class of a policy"),
    ],
)
def test_an_entry_point_that_cannot_be_used(name: str, problem: str) -> None:
    """The problem names option and entry point."""
    with pytest.raises(ConfigError) as caught:
        HostAccess().load_policy(ExternalOptions(entry_point=name))
    (text,) = caught.value.problems
    assert text.startswith("policy external: EntryPoint: ")
    assert problem in text
