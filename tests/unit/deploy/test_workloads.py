"""What pods of the cluster may do and are told, in kustomize and chart alike: no more than they need."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.config.agent.settings import AgentSettings
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.webhook.settings import WebhookSettings
from tests.support.helm.chart import Chart
from tests.support.kube.deployed import containers
from tests.support.kube.manifests import Identity, by_identity
from tests.support.kube.plain_documents import Document

NAMESPACE = "interpose-system"
# Capabilities beyond none, and who may talk to the API server.
CAPABILITIES = {"hookserver": ["DAC_OVERRIDE", "SYS_RESOURCE", "SYS_PTRACE"]}
WITH_TOKEN = {"agent", "certs"}
ROOT = {"agent", "hookserver"}


@pytest.fixture(params=["kustomize", "chart"])
def objects(request: pytest.FixtureRequest, self_signed: list[Document], chart: Chart) -> list[Document]:
    """Everything, from either source."""
    return self_signed if request.param == "kustomize" else chart.manifests()


def workload(objects: list[Document], kind: str, name: str) -> Document:
    """The spec of a workload."""
    spec: Document = by_identity(objects)[Identity(kind, NAMESPACE, f"interpose-{name}")]["spec"]
    return spec


def test_containers_have_no_more_than_they_need(objects: list[Document]) -> None:
    """Read-only root, no capabilities but those that are explained, bounded memory, no other privileges."""
    seen = set()
    for name, container, pod in containers(objects):
        own = container["securityContext"]
        component = container["name"]
        seen.add(component)

        assert own["readOnlyRootFilesystem"] is True, name
        assert own["allowPrivilegeEscalation"] is False, name
        assert own["capabilities"]["drop"] == ["ALL"], name
        assert own["capabilities"].get("add", []) == CAPABILITIES.get(component, []), name
        assert "privileged" not in own
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert (pod["securityContext"]["runAsUser"] == 0) == (component in ROOT), name
        assert pod["automountServiceAccountToken"] == (component in WITH_TOKEN), name
        assert container["resources"]["limits"]["memory"], name
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
        assert pod.get("hostPID", False) == (component == "hookserver"), name
        assert not pod.keys() & {"hostNetwork", "hostIPC"}, name
    assert seen == {"agent", "hookserver", "webhook", "certs"}


def test_accounts_hand_out_no_tokens_by_themselves(objects: list[Document]) -> None:
    """A pod that needs one says so."""
    accounts = [one for one in objects if one["kind"] == "ServiceAccount"]

    assert len(accounts) == 4
    assert all(one["automountServiceAccountToken"] is False for one in accounts)


def test_daemons_run_on_every_node_and_survive_pressure(objects: list[Document]) -> None:
    """Whatever taints a node has; a tenth of them may be away at a time."""
    for name in ("agent", "hookserver"):
        spec = workload(objects, "DaemonSet", name)
        pod = spec["template"]["spec"]

        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["priorityClassName"] == "system-node-critical"
        assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}


def test_programs_take_the_arguments_of_their_manifests(objects: list[Document]) -> None:
    """Each command line is accepted by the program itself."""
    for name, container, _ in containers(objects):
        arguments = container["args"]
        question = "--help" if "certs" in arguments else "--print-config"
        result = CliRunner().invoke(cli, [*arguments, question], env={"NODE_NAME": "node-1"})

        assert result.exit_code == 0, f"{name}: {result.output}"
        for argument in arguments[2:] if question == "--help" else ():
            assert argument.partition("=")[0] in result.output


def test_settings_in_manifests_are_no_environment(objects: list[Document]) -> None:
    """They are arguments, so that `kubectl describe` shows them in one place; NODE_NAME is the only variable."""
    for _, container, _ in containers(objects):
        assert [one["name"] for one in container.get("env", ())] in ([], ["NODE_NAME"])


def test_sockets_and_files_are_in_directories_of_the_host(objects: list[Document]) -> None:
    """The defaults of the programs are below what is mounted, under the same path as on the host."""
    agent, hooks = AgentSettings(), HookServerSettings()
    wanted = {
        "agent": [agent.config.socket, agent.service.socket, agent.node_state.file, agent.admin.listen],
        "hookserver": [hooks.listen, hooks.admin.listen, f"{hooks.registration.dir}/x", f"{hooks.state_dir}/x"],
    }
    for name, paths in wanted.items():
        pod = workload(objects, "DaemonSet", name)["template"]["spec"]
        sources = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: sources[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}

        for path in paths:
            assert any(path.startswith(f"{mount}/") and mount == source for mount, source in mounts.items()), path


def test_the_hook_server_reads_what_the_agent_writes(objects: list[Document]) -> None:
    """One file, in the directory that both mount."""
    arguments = workload(objects, "DaemonSet", "hookserver")["template"]["spec"]["containers"][0]["args"]

    assert f"--nodeslo={AgentSettings().node_state.file}" in arguments


def test_the_webhook_stands_on_two_legs(objects: list[Document]) -> None:
    """Two replicas, one of which stays; each has the time to say good-bye that its settings need."""
    spec = workload(objects, "Deployment", "webhook")
    budget = workload(objects, "PodDisruptionBudget", "webhook")
    settings = WebhookSettings()

    assert spec["replicas"] == 2
    assert (budget["maxUnavailable"], "minAvailable" in budget) == (1, False)
    grace = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace >= settings.stop.shutdown_delay + settings.stop.grace + 5
    assert spec["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"] == spec["selector"]


def test_probes_go_where_nobody_else_is_served(objects: list[Document]) -> None:
    """To the port of metrics: no client of the program itself can keep the kubelet from asking."""
    probed = set()
    for name, container, _ in containers(objects):
        for kind, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            if kind in container:
                probed.add(container["name"])
                assert container[kind]["httpGet"] == {"path": path, "port": "metrics"}, name
    assert probed == {"agent", "hookserver", "webhook"}


def test_the_webhook_finds_its_certificate(objects: list[Document]) -> None:
    """The Secret is mounted where it is told to look, readable for its group alone."""
    pod = workload(objects, "Deployment", "webhook")["template"]["spec"]
    [mount] = pod["containers"][0]["volumeMounts"]
    settings = WebhookSettings()

    assert Path(settings.tls.cert).parent == Path(settings.tls.key).parent == Path(mount["mountPath"])
    assert pod["volumes"][0]["secret"] == {"secretName": "interpose-webhook-tls", "defaultMode": 0o440}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


def test_api_servers_do_not_wait_for_the_webhook(objects: list[Document]) -> None:
    """It fails open and soon, never stands in its own way, and can be asked to look away."""
    [webhook] = by_identity(objects)[Identity("MutatingWebhookConfiguration", "", "interpose")]["webhooks"]

    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Ignore", 2, "None")
    assert (webhook["reinvocationPolicy"], webhook["matchPolicy"]) == ("IfNeeded", "Equivalent")
    assert webhook["admissionReviewVersions"] == ["v1", "v1beta1"]
    [rule] = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE", "UPDATE"])
    excluded = webhook["namespaceSelector"]["matchExpressions"][0]
    assert (excluded["operator"], set(excluded["values"])) == ("NotIn", {"kube-system", NAMESPACE})
    assert webhook["objectSelector"]["matchExpressions"][0]["key"] == "interpose/webhook"


def test_the_job_for_certificates_is_no_state(objects: list[Document]) -> None:
    """It goes away soon and cannot be changed: tools that keep a cluster as files say must not miss or patch it."""
    [job] = [one for one in objects if one["kind"] == "Job"]

    assert job["spec"]["ttlSecondsAfterFinished"] <= 120
    assert job["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "Sync"
    assert job["metadata"]["annotations"]["argocd.argoproj.io/hook-delete-policy"] == "BeforeHookCreation"


def rules(objects: list[Document], kind: str, name: str, namespace: str = "") -> set[tuple[str, ...]]:
    """What a role allows: group, resource, name, verb, one line each."""
    found = by_identity(objects)[Identity(kind, namespace, f"interpose-{name}")]["rules"]
    return {
        (group, resource, one, verb)
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for one in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def test_the_agent_may_read_and_patch_and_nothing_else(objects: list[Document]) -> None:
    """ConfigMaps by their names, no secrets, nothing to delete; a new right is a change of this table."""
    reading = ("get", "list", "watch")
    maps = ("cri-resmgr-config", "cri-resmgr-config.default")

    assert rules(objects, "ClusterRole", "agent") == {
        *(("", "nodes", "", verb) for verb in (*reading, "patch")),
        ("", "nodes/status", "", "patch"),
        *(("slo.koordinator.sh", "nodeslos", "", verb) for verb in reading),
    }
    assert rules(objects, "Role", "agent-config", "kube-system") == {
        ("", "configmaps", name, verb) for name in maps for verb in reading
    }
    assert rules(objects, "Role", "agent-events", "default") == {
        ("", "events", "", "create"),
        ("", "events", "", "patch"),
    }


def test_who_makes_certificates_may_touch_one_secret_and_one_registration(objects: list[Document]) -> None:
    """Creating cannot be limited to a name; it is limited to the namespace."""
    group = "admissionregistration.k8s.io"

    assert rules(objects, "Role", "webhook-certs", NAMESPACE) == {
        ("", "secrets", "interpose-webhook-tls", "get"),
        ("", "secrets", "interpose-webhook-tls", "update"),
        ("", "secrets", "", "create"),
    }
    assert rules(objects, "ClusterRole", "webhook-certs") == {
        (group, "mutatingwebhookconfigurations", "interpose", verb) for verb in ("get", "update")
    }


def test_nobody_else_has_any_rights(objects: list[Document]) -> None:
    """Hook server and webhook have accounts without a single rule."""
    bound = {subject["name"] for one in objects if one["kind"].endswith("RoleBinding") for subject in one["subjects"]}

    assert bound == {"interpose-agent", "interpose-webhook-certs"}
