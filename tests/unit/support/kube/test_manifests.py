"""Objects that name each other."""

from typing import Any

import pytest

from tests.support.kube.manifests import Identity, by_identity, identity, pod_template, problems

LABELS = {"app": "x"}


def account(name: str = "x") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "metadata": {"name": name, "namespace": "n"}}


def workload(kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "ports": [{"name": "web"}], "livenessProbe": {"httpGet": {"port": "web"}}}
    pods = {"serviceAccountName": "x", "containers": [container], **spec}
    template = {"metadata": {"labels": LABELS}, "spec": pods}
    metadata = {"name": "x", "namespace": "n"}
    return {"kind": kind, "metadata": metadata, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}


def named(kind: str, namespace: str = "n", **parts: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": namespace} if namespace else {"name": "x"}
    return {"kind": kind, "metadata": metadata, **parts}


def service(port: str = "web", **labels: str) -> dict[str, Any]:
    return named("Service", spec={"selector": labels or LABELS, "ports": [{"port": 443, "targetPort": port}]})


def webhook(port: int) -> dict[str, Any]:
    client = {"service": {"name": "x", "namespace": "n", "port": port}}
    return named("MutatingWebhookConfiguration", "", webhooks=[{"clientConfig": client}])


def binding(kind: str = "Role", subject: str = "x") -> dict[str, Any]:
    subjects = [{"kind": "ServiceAccount", "namespace": "n", "name": subject}]
    return named("RoleBinding", roleRef={"kind": kind, "name": "x"}, subjects=subjects)


def test_what_fits_together_has_no_problems() -> None:
    """A workload with everything around it."""
    budget = named("PodDisruptionBudget", spec={"selector": {"matchLabels": LABELS}})
    everything = [account(), workload(), service(), webhook(443), budget, named("Role"), binding()]

    assert problems(everything) == []


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([account(), account()], "ServiceAccount n x: is there 2 times"),
        ([named("Role", "")], "Role  x: needs a namespace"),
        ([named("ClusterRole")], "ClusterRole n x: has no namespace"),
        ([account(), binding()], "RoleBinding n x: there is no Role x"),
        ([account(), binding("ClusterRole")], "RoleBinding n x: there is no ClusterRole x"),
        ([named("Role"), binding(subject="y")], "RoleBinding n x: there is no ServiceAccount n/y"),
        ([workload()], "Deployment n x: there is no ServiceAccount x"),
        ([service()], "Service n x: selects pods of 0 workloads"),
        ([account(), workload(), service("https")], "Service n x: its pods have no port https"),
        ([webhook(443)], "MutatingWebhookConfiguration  x: there is no Service n/x:443"),
        ([account(), workload(), service(), webhook(1)], "MutatingWebhookConfiguration  x: there is no Service n/x:1"),
        (
            [named("PodDisruptionBudget", spec={"selector": {"matchLabels": LABELS}})],
            "PodDisruptionBudget n x: selects no pods",
        ),
    ],
)
def test_what_is_missing_or_twice_is_named(documents: list[dict[str, Any]], problem: str) -> None:
    """With who misses it."""
    assert problem in problems(documents)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "there is no Secret s"),
        ({"volumes": [{"name": "v", "configMap": {"name": "m"}}]}, "there is no ConfigMap m"),
        ({"containers": [{"name": "c", "volumeMounts": [{"name": "v"}]}]}, "there is no volume v"),
        (
            {"containers": [{"name": "c", "readinessProbe": {"httpGet": {"port": "web"}}}]},
            "readinessProbe: there is no port web",
        ),
    ],
)
def test_pods_name_what_there_is(spec: dict[str, Any], problem: str) -> None:
    """Volumes, their sources, ports of probes."""
    assert problems([account(), workload(**spec)]) == [f"Deployment n x: {problem}"]


def test_what_others_make_is_there() -> None:
    """Such as a Secret that a job makes."""
    mine = workload(volumes=[{"name": "v", "secret": {"secretName": "s"}}])

    assert problems([account(), mine], [Identity("Secret", "n", "s")]) == []


def test_a_selector_must_select_its_own_pods() -> None:
    """API servers refuse such a workload."""
    mine = workload()
    mine["spec"]["selector"] = {"matchLabels": {"app": "y"}}

    assert "Deployment n x: its selector does not select its own pods" in problems([account(), mine])


def test_pods_of_a_cron_job_are_found() -> None:
    """They are two levels deeper."""
    inner = workload()["spec"]
    job = named("CronJob", spec={"jobTemplate": {"spec": inner}})

    assert pod_template(job) == inner["template"]
    assert pod_template(account()) is None


def test_objects_by_identity_are_distinct() -> None:
    """A second one with the same name is an error."""
    assert by_identity([account()]) == {identity(account()): account()}
    with pytest.raises(KeyError, match="is given twice"):
        by_identity([account(), account()])
