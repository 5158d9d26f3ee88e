"""`interpose dump replay --policy` needs no node."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose._pb import cri_pb2 as cri
from interpose.cli.dump.replay_policy import POLICY_VALUES, policy_wanted
from interpose.cli.main import cli
from interpose.testing.pods import pod_config, run_request
from interpose.testing.recordings import Script, write_recording
from tests.support.policy.recalled_node import create_of

MACHINE = ("--topology", "2 sockets x 2 numa x 2 cores x 2 threads")
STATIC = (*MACHINE, "--policy", "static", "--reserved-resources", "cpu=cpuset:0")


def run(script: Script, name: str, milli: int, cpus: str = "") -> str:
    """A Guaranteed pod with a container that runs, with these CPUs: the container's id."""
    config = pod_config(name, qos="guaranteed")
    script.call("RunPodSandbox", run_request(config), cri.RunPodSandboxResponse(pod_sandbox_id=name))
    request = create_of((name, config), milli)
    sent = cri.CreateContainerRequest.FromString(request.SerializeToString())
    sent.config.linux.resources.cpuset_cpus = cpus
    reply = cri.CreateContainerResponse(container_id=f"{name}-1")
    script.call("CreateContainer", request, reply, forwarded=sent if cpus else None)
    script.call("StartContainer", cri.StartContainerRequest(container_id=f"{name}-1"), cri.StartContainerResponse())
    return f"{name}-1"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two containers, one of which ends."""
    script = Script()
    database = run(script, "db", 4000, cpus="4-7")
    run(script, "api", 2000)
    script.call("StopContainer", cri.StopContainerRequest(container_id=database), cri.StopContainerResponse())
    write_recording(tmp_path / "day.crirec", script.frames)
    return tmp_path / "day.crirec"


def replay(*arguments: object) -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["dump", "replay", *map(str, arguments)])


def outcome(*arguments: object) -> Any:
    """What it says as JSON."""
    return json.loads(replay(*arguments, "-o", "json").stdout)


def test_a_policy_decides_about_a_recording(recording: Path) -> None:
    """The same as then, or something else."""
    result = replay(recording, *STATIC)
    assert result.exit_code == 0
    assert "create   default/db/app   4    - -> 4-7" in result.output
    assert "release  default/db/app   4    4-7 -> -" in result.output
    found = outcome(recording, *STATIC)
    assert found["recording"] == str(recording)
    (static,) = found["policies"]
    assert [one["verdict"] for one in static["compared"]] == ["same", "nothing given"]
    assert static["summary"]["exclusive_peak"] == 6


def test_several_policies_are_compared_in_one_go(recording: Path) -> None:
    """An alias is the policy it stands for, and one named twice is asked once."""
    arguments = (*STATIC, "--policy", "static-plus", "--policy", "null", "--policy", "none")
    found = outcome(recording, *arguments)
    assert [one["policy"] for one in found["policies"]] == ["static", "static-plus", "none"]
    assert "POLICY                                  static  static-plus  none" in replay(recording, *arguments).output


def test_a_refusal_is_the_exit_code(recording: Path) -> None:
    """Unless somebody expects one."""
    small = ("--topology", "1 socket x 2 cores", "--policy", "static", "--reserved-resources", "cpu=cpuset:0")
    assert replay(recording, *small).exit_code == 1
    assert replay(recording, *small, "--allow-refusals").exit_code == 0


def test_a_picture_shows_who_had_what(recording: Path) -> None:
    """Of each policy."""
    result = replay(recording, *STATIC, "--picture", "--ascii")
    assert "Policy static: who had which CPUs alone" in result.output
    assert "A  default/db/app  4-7" in result.output
    assert result.output.isascii()
    assert "·" in replay(recording, *STATIC, "--picture").output


def test_the_policy_may_come_from_a_document(recording: Path, tmp_path: Path) -> None:
    """As a relay reads it."""
    document = tmp_path / "policy.yaml"
    document.write_text("policy: {Active: static, ReservedResources: {CPU: 'cpuset:0'}}")
    found = outcome(recording, *MACHINE, "--policy-config", document)
    assert [one["policy"] for one in found["policies"]] == ["static"]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("~m Create", *STATIC), 2, "a filter does not go with --policy"),
        ((*STATIC, "--picture", "-o", "json"), 2, "--picture does not go with -o json"),
        ((*MACHINE, "--policy", "static"), 78, "reserved"),
        (("--topology", "nonsense", "--policy", "none"), 78, "machine"),
    ],
)
def test_mistakes_are_told(recording: Path, arguments: tuple[str, ...], code: int, problem: str) -> None:
    """With the exit code that fits."""
    result = replay(recording, *arguments)
    assert result.exit_code == code
    assert problem in result.stderr


def test_damage_is_a_warning(recording: Path) -> None:
    """Everything else is used."""
    data = bytearray(recording.read_bytes())
    data[len(data) // 2] ^= 0xFF
    recording.write_bytes(data)
    result = replay(recording, *STATIC)
    assert "warning: " in result.stderr
    assert "Policy static" in result.output


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Named."""
    result = replay(tmp_path / "none.crirec", *STATIC)
    assert result.exit_code == 78
    assert "none.crirec" in result.stderr


def test_a_policy_is_wanted_if_one_is_named() -> None:
    """By itself or in a document."""
    nothing = dict.fromkeys(POLICY_VALUES)
    assert not policy_wanted(nothing)
    assert policy_wanted({**nothing, "policies": ("static",)})
    assert policy_wanted({**nothing, "policy_config": "x"})
