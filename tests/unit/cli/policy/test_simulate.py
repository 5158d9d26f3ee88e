"""`interpose simulate` needs no node."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.core.model.cpuset import CpuSet

SAMPLE = Path(__file__).parents[4] / "samples/pods.yaml"
POD = """\
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: c, resources: {limits: {cpu: CPU, memory: 1Gi}}}]}
"""
STATIC = ("--topology", "2p1d2n4c2t", "--policy", "static", "--reserved-resources", "cpu=1")


def run(*arguments: object, stdin: str = "") -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["simulate", *map(str, arguments)], input=stdin)


def pod(name: str, cpu: int = 2) -> str:
    """A Guaranteed pod of one container."""
    return POD.replace("NAME", name).replace("CPU", str(cpu))


def outcome(*arguments: object, stdin: str = "") -> dict[str, Any]:
    """What it says as JSON."""
    found: dict[str, Any] = json.loads(run(*arguments, "-o", "json", stdin=stdin).stdout)
    return found


def test_the_sample_gets_its_cpus() -> None:
    """Guaranteed containers with whole CPUs have some of their own, the others share the rest."""
    result = run(*STATIC, "-f", SAMPLE)
    assert result.exit_code == 0
    found = outcome(*STATIC, "-f", SAMPLE)
    by_name = {one["container"]: one for one in found["assignments"]}
    assert by_name["prod/database/postgres"]["exclusive"] == "2-5"
    assert by_name["prod/dpdk/forwarder"]["exclusive"] == "8-9"
    assert by_name["batch/backup/rsync"]["cpus"] == found["pools"]["shared"] == "0-1,6-7,10-31"
    assert [record["action"] for record in found["records"]][:3] == ["allocate", "release", "allocate"]
    assert max(map(len, result.output.splitlines())) <= 100


def test_the_sample_of_pod_pools_is_as_its_page_says() -> None:
    """The pods go where the example of the policy says."""
    samples = SAMPLE.parent
    found = outcome(
        *("--topology", "2p2n2c2t", "--policy-config", samples / "podpools.yaml", "-f", samples / "podpools-pods.yaml")
    )
    page = (samples.parent / "docs/policy/podpools.md").read_text().partition("## Example")[2]
    for one in found["assignments"]:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one['container'].split('/')[1]}`"))
        assert [cell.strip() for cell in row.split("|")][3:5] == [f"`{one['cpus']}`", one["mems"]]
    assert len(found["assignments"]) == 10
    for name, cpus in found["pools"].items():
        assert any(line.split() == [name, str(len(CpuSet.parse(cpus))), cpus] for line in page.splitlines())


def test_the_sample_of_dynamic_pools_is_as_its_page_says() -> None:
    """Whoever is not refused has what the example of the policy says."""
    samples = SAMPLE.parent
    files = ("--policy-config", samples / "dynamic-pools.yaml", "-f", samples / "dynamic-pools-pods.yaml")
    found = outcome("--topology", "2p2n2c2t", *files, "--allow-refusals")
    page = (samples.parent / "docs/policy/dynamic-pools.md").read_text().partition("## Example")[2]
    for one in found["assignments"]:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one['container'].split('/')[1]}`"))
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[3:6] == [f"`{one['pools'][0]}`", f"`{one['cpus']}`", one["mems"]]
    assert len(found["assignments"]) == 8
    assert [record["container"] for record in found["records"] if record["refusal"]] == ["jobs/huge/main"]


def test_the_sample_of_balloons_is_as_its_page_says() -> None:
    """The pods and the balloons of the example of the policy; all containers of a pod are in one."""
    samples = SAMPLE.parent
    files = ("--policy-config", samples / "balloons.yaml", "-f", samples / "balloons-pods.yaml")
    found = outcome("--topology", "2p2n2c2t", *files, "--allow-refusals")
    page = (samples.parent / "docs/policy/balloons.md").read_text().partition("## Example")[2]
    for one in found["assignments"]:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one['container'].split('/')[1]}`"))
        assert [cell.strip() for cell in row.split("|")][3:5] == [f"`{one['cpus']}`", one["mems"]]
    assert len(found["assignments"]) == 7
    assert [record["container"] for record in found["records"] if record["refusal"]] == ["team-a/huge/main"]
    for name, cpus in found["pools"].items():
        assert any(line.split() == [name, str(len(CpuSet.parse(cpus))), cpus] for line in page.splitlines())


def test_the_sample_of_topology_aware_is_as_its_page_says() -> None:
    """CPUs and memory of all, and the pools in the end."""
    samples = SAMPLE.parent
    files = ("--policy-config", samples / "topology-aware.yaml", "-f", samples / "topology-aware-pods.yaml")
    machine = "2 sockets x 2 numa x 2 cores x 2 threads; isolated 8-9"
    found = outcome("--topology", machine, *files, "--allow-refusals")
    page = (samples.parent / "docs/policy/topology-aware.md").read_text().partition("## Example")[2]
    for one in found["assignments"]:
        row = next(line for line in page.splitlines() if line.startswith(f"| `{one['container'].split('/')[1]}`"))
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[3].startswith(f"`{one['cpus']}`")
        assert cells[4] == one["mems"]
    assert len(found["assignments"]) == 7
    assert [record["container"] for record in found["records"] if record["refusal"]] == ["shop/huge/main"]
    pools = [line.split() for line in page.partition("POOL ")[2].partition("```")[0].splitlines()[1:]]
    assert [" ".join(line[:-2]) for line in pools] == list(found["pools"])
    assert [line[-1] for line in pools] == [cpus or "-" for cpus in found["pools"].values()]


def test_pods_come_from_files_and_standard_input(tmp_path: Path) -> None:
    """In the order in which they are given."""
    path = tmp_path / "a.yaml"
    path.write_text(pod("a"))
    found = outcome(*STATIC, "-f", "-", "-f", path, stdin=pod("b"))
    assert [one["container"] for one in found["assignments"]] == ["default/b/c", "default/a/c"]


def test_a_refusal_is_the_exit_code() -> None:
    """Unless somebody expects one."""
    result = run(*STATIC, "-f", "-", stdin=pod("big", 99))
    assert result.exit_code == 1
    assert result.output.endswith("1 container refused\n")
    assert run(*STATIC, "-f", "-", "--allow-refusals", stdin=pod("big", 99)).exit_code == 0


def test_pods_can_be_removed_again() -> None:
    """Their CPUs go back."""
    found = outcome(*STATIC, "-f", "-", "--remove", "default/a", stdin=f"{pod('a')}---\n{pod('b')}")
    assert [one["container"] for one in found["assignments"]] == ["default/b/c"]
    result = run(*STATIC, "-f", "-", "--remove", "a", stdin=pod("a"))
    assert result.exit_code == 78
    assert "'a' is none of the pods, which are default/a" in result.stderr


def test_the_policy_may_come_from_a_document(tmp_path: Path) -> None:
    """As a relay reads it; flags count more."""
    document = tmp_path / "policy.cfg"
    document.write_text(
        "policy: {Active: static, ReservedResources: {CPU: 2}, AvailableResources: {CPU: 'cpuset:0-7'}}"
    )
    by_document = outcome("--topology", "2p1d2n4c2t", "--policy-config", document, "-f", "-", stdin=pod("a"))
    assert by_document["policy"] == "static"
    assert by_document["pools"]["reserved"] == "0-1"
    assert by_document["assignments"][0]["exclusive"] == "2-3"
    by_flag = outcome(
        "--topology", "2p1d2n4c2t", "--policy-config", document, "--policy", "null", "-f", "-", stdin=pod("a")
    )
    assert by_flag["policy"] == "none"


def test_what_a_document_says_in_vain_is_a_warning(tmp_path: Path) -> None:
    """On the other stream, so that JSON stays JSON."""
    document = tmp_path / "policy.yaml"
    document.write_text("policy: {Active: none}\nlogger: {}\n")
    result = run("--topology", "2p1d2n4c2t", "--policy-config", document, "-f", "-", "-o", "json", stdin=pod("a"))
    assert "warning: file" in result.stderr
    assert json.loads(result.stdout)["policy"] == "none"


def test_pools_may_be_in_the_document(tmp_path: Path) -> None:
    """As for the relay."""
    document = tmp_path / "policy.yaml"
    document.write_text(
        "policy:\n  Active: static-pools\n  static-pools:\n    pools:\n"
        "      shared: {exclusive: false, cpuLists: [{Cpuset: '4-7', Socket: 0}]}\n"
    )
    found = outcome("--topology", "2p1d2n4c2t", "--policy-config", document, "-f", "-", stdin=pod("a"))
    assert [one["cpus"] for one in found["assignments"]] == ["4-7"]


def test_without_a_topology_it_is_this_machine() -> None:
    """The policy none works everywhere."""
    assert outcome("-f", "-", stdin=pod("a"))["policy"] == "none"


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        (("--topology", "2p1d2n4c2t", "--policy", "static"), pod("a"), "reserved"),
        ((*STATIC[:4], "--reserved-resources", "cpu=x"), pod("a"), "flag --reserved-resources"),
        (STATIC, "kind: Job\n", "standard input line 1: kind: expected Pod or List, found 'Job'"),
        ((*STATIC, "-f", "/nonexistent.yaml"), pod("a"), "file /nonexistent.yaml: cannot be read"),
        ((*STATIC, "-f", str(SAMPLE), "-f", str(SAMPLE)), pod("a"), "pod prod/database is given twice"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], stdin: str, problem: str) -> None:
    """With the code for settings that cannot be used."""
    result = run(*arguments, "-f", "-", stdin=stdin)
    assert result.exit_code == 78
    assert problem in result.stderr


SAMPLES = Path(__file__).parents[4] / "samples"
POOLS = ("--topology", "2 sockets x 2 numa x 2 cores x 2 threads", "--policy", "static-pools")


def test_pools_come_from_a_file_as_for_a_relay() -> None:
    """The example on the page of the policy."""
    found = outcome(
        *POOLS, "--static-pools-conf-file", SAMPLES / "static-pools.yaml", "-f", SAMPLES / "static-pools-pods.yaml"
    )
    assert {one["container"].split("/")[1]: one["cpus"] for one in found["assignments"]} == {
        "fwd": "8-9",
        "pair": "2-5",
        "web": "6-7",
        "api": "12-15",
        "job": "12-15",
        "agent": "0-1",
    }
    assert [one["container"] for one in found["records"] if one["refusal"]] == ["default/more/main"]


def test_pools_come_from_a_directory_as_for_a_relay(tmp_path: Path) -> None:
    """As CMK makes it; pools of the document count before it, which is said."""
    pool = tmp_path / "pools/shared"
    (pool / "0/4-5").mkdir(parents=True)
    (pool / "exclusive").write_text("0")
    flags = (*POOLS, "--static-pools-conf-dir", tmp_path)
    assert outcome(*flags, "-f", "-", stdin=pod("a"))["pools"] == {"shared": "4-5"}
    document = tmp_path / "policy.yaml"
    document.write_text("policy.static-pools: {pools: {shared: {cpuLists: [{Cpuset: 6-7, Socket: 0}]}}}")
    result = run(*flags, "--policy-config", document, "-f", "-", stdin=pod("a"))
    assert "warning: flag --static-pools-conf-dir: has no effect" in result.stderr
    assert "6-7" in result.stdout


def test_a_drawing_of_who_has_what(tmp_path: Path) -> None:
    """Beside the text or the JSON; alone on standard output."""
    path = tmp_path / "who.svg"
    result = run(*STATIC, "-f", SAMPLE, "--svg", path)
    assert result.exit_code == 0
    assert result.stdout == run(*STATIC, "-f", SAMPLE).stdout + f"Drawing is in {path}\n"
    drawing = path.read_text()
    assert "Policy static on 2p1d2n4c2t" in drawing
    assert "prod/database/postgres: 2-5" in drawing
    assert "shared by 3 containers" in drawing
    assert run(*STATIC, "-f", SAMPLE, "--svg", "-").stdout == drawing
    path.unlink()
    assert json.loads(run(*STATIC, "-f", SAMPLE, "--svg", path, "-o", "json").stdout)["policy"] == "static"
    assert path.read_text() == drawing
    assert "cannot be written" in run(*STATIC, "-f", SAMPLE, "--svg", tmp_path).stderr


def test_json_has_the_pools_with_their_containers() -> None:
    """As a relay tells them: those without CPUs of their own share one."""
    found = outcome(*STATIC, "-f", SAMPLE)
    shared = next(pool for pool in found["pool_details"] if pool["name"] == "shared")
    assert shared["containers"] == [one["container"] for one in found["assignments"] if not one["exclusive"]]
    assert len(shared["containers"]) == 3
