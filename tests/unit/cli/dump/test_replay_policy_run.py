"""Policies that look back at recordings."""

import json
from pathlib import Path

import pytest

from interpose.cli.dump.replay_policy_run import WhatIfRequest, WhatIfResult, replay_policies
from interpose.core.model.cpuset import CpuSet
from interpose.errors import ConfigError
from interpose.testing.recordings import sample_recording

MACHINE = "2 sockets x 2 numa x 2 cores x 2 threads"
STATIC = WhatIfRequest(policies=("static", "static"), topology=MACHINE, details={"reserved": "cpu=1"})


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Two pods; one of them fails and goes."""
    sample_recording(tmp_path / "sample.crirec")
    return str(tmp_path / "sample.crirec")


def test_a_recording_is_decided_anew(recording: str) -> None:
    """By each policy once, on the machine that is said."""
    decided = replay_policies([recording], STATIC)
    assert [one["policy"] for one in decided.document["policies"]] == ["static"]
    assert json.loads(decided.json())["machine"].startswith(MACHINE)
    assert decided.online == CpuSet.parse("0-15")
    assert not decided.refused
    assert "shop/web-0/app" in decided.text(verbose=False, width=None)
    assert decided.pictures(width=80, ascii_only=True).startswith("Policy static: who had which CPUs alone")


def test_a_policy_that_cannot_work_is_an_error_before_anything_is_read() -> None:
    """The recording need not even be there."""
    with pytest.raises(ConfigError, match="reserved"):
        replay_policies(["nowhere"], WhatIfRequest(policies=("static",), topology=MACHINE, details={}))


@pytest.mark.parametrize(("refused", "resizes"), [(1, 0), (0, 1), (0, 0)])
def test_refusals_are_those_of_containers_and_resizes(refused: int, resizes: int) -> None:
    """Of any policy."""
    calm = {"summary": {"refused": 0, "resizes_refused": 0}}
    other = {"summary": {"refused": refused, "resizes_refused": resizes}}
    decided = WhatIfResult(document={"policies": [calm, other]}, online=CpuSet())
    assert decided.refused is bool(refused or resizes)
