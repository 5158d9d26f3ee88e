"""The example package with a policy: installed by pip, named in a policy document, in force in a relay."""

import json
import subprocess
from pathlib import Path

import pytest

from interpose.core.policy.external import ExternalOptions
from interpose.errors import ConfigError
from interpose.resmgr.config.external_policy import GROUP, load_policy
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.lab.relay import program
from tests.support.packages import install_example, pretend_package, run_own_tests
from tests.support.policy.machines import machine
from tests.support.policy.stack import policy_stack

DOCUMENT = """\
policy:
  Active: external
  ReservedResources: {CPU: cpuset:0}
  external:
    EntryPoint: numa-spread
    Options: {avoidNodes: [%s]}
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: %s, uid: %s}
spec:
  containers:
  - name: main
    image: example
    resources: {requests: {cpu: 500m}}
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, and another package whose module cannot be imported."""
    pytest.importorskip("pip", reason="the example is installed by pip")
    folder = tmp_path_factory.mktemp("packages")
    install_example("policy", folder)
    (folder / "broken_policy.py").write_text("import there_is_no_such_module\n")
    (folder / "number_policy.py").write_text("Policy = 5\n")
    entries = f"[{GROUP}]\nbroken = broken_policy:Policy\nnumber = number_policy:Policy\n"
    pretend_package(folder, "broken-package", "0.3", entries)
    return folder


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both packages are on the path of whatever is started, and on ours."""
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.syspath_prepend(packages)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A policy document that names the example."""
    path = tmp_path / "policy.yaml"
    path.write_text(DOCUMENT % "")
    return path


def write(document: Path, text: str) -> None:
    """Another content of the file that the relay watches."""
    document.write_text(text)


@pytest.mark.usefixtures("installed")
def test_a_day_of_it_can_be_simulated(document: Path, tmp_path: Path) -> None:
    """Before it is on any node, with its own words."""
    pods = tmp_path / "pods.yaml"
    pods.write_text("---\n".join(PODS % (name, name) for name in ("a", "b", "c")))
    shape = ("--topology", "1 socket x 2 numa x 2 cores")
    command = [str(program()), "simulate", "--policy-config", str(document), *shape, "-o", "json", "-f", str(pods)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["policy"] == "numa-spread"


@pytest.mark.usefixtures("installed")
async def test_it_is_in_force_until_a_document_with_another_is_right(document: Path, tmp_path: Path) -> None:
    """Pods alternate between nodes; a document that cannot be used changes nothing; `none` puts everything back."""
    async with policy_stack(tmp_path, machine("n4c16"), config=str(document)) as stack:
        first, second = await stack.run("a", 2000), await stack.run("b", 500)
        assert [(stack.cpus(made), stack.has(made).cpuset_mems) for made in (first, second)] == [
            ("1-3", "0"),
            ("4-7", "1"),
        ]
        applier = stack.policy._applier
        assert applier is not None
        write(document, DOCUMENT % "0, 1, 2, 3")
        await eventually(lambda: applier.problems, "the document to be refused")
        (problem,) = applier.problems
        assert problem.startswith("policy external: entry point numa-spread: avoidNodes: [0, 1, 2, 3] is not a list ")
        assert stack.cpus(await stack.run("c", 500)) == "8-11"
        write(document, DOCUMENT % "0")
        await stack.eventually_cpus(first, "4-7")
    async with policy_stack(tmp_path, None, runtime=stack.runtime, config=str(document)) as again:
        await eventually(lambda: again.tracker.ready.is_set(), "the restart")
        assert [again.cpus(made) for made in (first, second)] == ["4-7", "4-7"]
        assert again.policy.tracker.configuration.policy == "external"
        write(document, "policy: {Active: none}")
        await again.eventually_cpus(first, "0-15")


@pytest.mark.usefixtures("installed")
def test_packages_that_cannot_be_used() -> None:
    """The problem names distribution, entry point and reason."""

    def problem(name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_policy(ExternalOptions(entry_point=name))
        return caught.value.problems[0]

    reference = "policy external: EntryPoint: distribution broken-package 0.3, entry point"
    assert problem("broken").startswith(f"{reference} broken = broken_policy:Policy: ModuleNotFoundError: No module")
    assert problem("number") == f"{reference} number = number_policy:Policy: refers to int, not to a class of a policy"
    assert problem("other") == (
        "policy external: EntryPoint: no installed package has an entry point 'other' in interpose.policies; "
        "there are: broken, numa-spread, number"
    )


@pytest.mark.usefixtures("installed")
def test_its_own_tests_pass() -> None:
    """They show how a policy is tested without a node."""
    run_own_tests("policy")
