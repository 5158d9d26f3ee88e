"""Texts, files and folders of manifests: documents, lists, what stands beside pods, and all problems at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.kinds import SUBDOMAIN
from interpose.node.pods.manifest.reader import combine_manifests, read_pod_file, read_pod_folder, read_pods
from interpose.node.pods.spec import ProjectedFiles

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: 'x:1'}]}\n"
MAP = "kind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1'}\n"
USER = (
    "kind: Pod\nmetadata: {name: u}\n"
    "spec: {containers: [{name: c, image: 'x:1', envFrom: [{configMapRef: {name: m}}]}]}\n"
)


def problems(text: str) -> list[str]:
    """What is wrong with a text."""
    with pytest.raises(ConfigError) as caught:
        read_pods(text, "file p.yaml")
    return caught.value.problems


def test_documents_and_lists_are_read_in_order() -> None:
    """Pods alone, in a PodList, and in a List of lists."""
    item: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": "b"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    inner = {"kind": "List", "items": [{**item, "metadata": {"name": "d"}}]}
    listed = json.dumps({"kind": "PodList", "items": [item, inner]})
    pods = read_pods(f"{POD % 'a'}---\n{listed}\n", "x")
    assert [one.name for one in pods] == ["a", "b", "d"]


def test_a_config_map_may_stand_before_or_after_its_pod() -> None:
    """In the same text."""
    for text in (f"{MAP}---\n{USER}", f"{USER}---\n{MAP}"):
        [pod] = read_pods(text, "x")
        assert [(one.name, one.value) for one in pod.containers[0].env] == [("a", "1")]


def test_all_problems_are_reported_with_their_lines_in_the_order_of_the_documents() -> None:
    """One round of mending is enough."""
    text = (
        "kind: Pod\nmetadata: {name: A}\nspec:\n  containers:\n  - {name: c, image: x, prots: []}\n"
        "---\nkind: Deployment\n---\nkind: Secret\nmetadata: {name: s}\ndata: {k: '***'}\n"
    )
    assert problems(text) == [
        f"file p.yaml document 1 line 2: metadata.name: expected {SUBDOMAIN.what}, found 'A'",
        "file p.yaml document 1 line 5: spec.containers[0].prots: is not a known key, did you mean ports?",
        "file p.yaml document 2 line 7: kind: expected Pod, ConfigMap, Secret or List, found 'Deployment'",
        "file p.yaml document 3 line 11: data['k']: is not base64",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (MAP, "file p.yaml: holds no pods"),
        ("# nothing\n", "file p.yaml: holds no pods"),
        ("a: [", "file p.yaml line 2: is not valid YAML: did not find expected node content"),
        ("- a\n", "file p.yaml line 1: kind: is missing, expected Pod, ConfigMap, Secret or List"),
        (
            "kind: PodList\nitems: {}\n",
            "file p.yaml line 2: items: expected a list, found a group of keys",
        ),
        (f"{POD % 'a'}---\n{POD % 'a'}", "file p.yaml: pod default/a is given twice, first in p.yaml"),
        (
            f"{MAP}---\n{MAP}---\n{USER}",
            "file p.yaml document 2: ConfigMap default/m is given twice, first in file p.yaml document 1",
        ),
    ],
)
def test_texts_that_are_no_manifests(text: str, problem: str) -> None:
    """Each with its place."""
    assert problem in problems(text)


def test_two_pods_cannot_have_one_uid() -> None:
    """The runtime would take them for one."""
    text = POD.replace("{name: %s}", "{name: %s, uid: u}")
    assert problems(f"{text % 'a'}---\n{text % 'b'}") == ["file p.yaml: uid u is given twice, first in p.yaml"]


def test_too_many_documents_are_one_problem() -> None:
    """No manifest has so many."""
    assert problems("---\na: 1\n" * 1001) == ["file p.yaml: has more than 1000 documents"]


def test_a_file_is_named_in_its_pods(tmp_path: Path) -> None:
    """For people who look for it."""
    path = tmp_path / "p.yaml"
    path.write_text(POD % "a")
    [pod] = read_pod_file(str(path))
    assert pod.source == str(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Is a problem that names it."""
    with pytest.raises(ConfigError, match="cannot be read"):
        read_pod_file(str(tmp_path / "p.yaml"))


def test_a_folder_gives_the_pods_of_its_good_files(tmp_path: Path) -> None:
    """A bad one is named, and no other suffers; hidden ones and other suffixes are not looked at."""
    (tmp_path / "a.yaml").write_text(POD % "a")
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.yml").write_bytes(b"\xff\xfe\xfa")
    for name in (".hidden.yaml", "a.yaml~", "README"):
        (tmp_path / name).write_text("nonsense: [")
    found = read_pod_folder(str(tmp_path))
    assert [one.name for one in found.pods] == ["a"]
    assert set(found.problems) == {str(tmp_path / "b.json"), str(tmp_path / "c.yml")}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Is a problem of its own."""
    with pytest.raises(ConfigError, match=r"folder .*/none: cannot be read: No such file"):
        read_pod_folder(str(tmp_path / "none"))


def test_an_empty_folder_has_no_pods_and_no_problems(tmp_path: Path) -> None:
    """That may be what is wanted."""
    found = read_pod_folder(str(tmp_path))
    assert (found.pods, dict(found.problems)) == ((), {})


def test_config_maps_of_one_file_are_for_the_pods_of_all() -> None:
    """Files may come in any order."""
    found = combine_manifests({"a.yaml": USER, "b.yaml": MAP})
    assert [one.name for one in found.pods] == ["u"]
    assert found.problems == {}


def test_what_two_files_have_counts_in_the_first() -> None:
    """The second has a problem, and gives no pods until it is mended."""
    found = combine_manifests({"a.yaml": POD % "a", "b.yaml": f"{POD % 'a'}---\n{POD % 'b'}"})
    assert [(one.name, one.source) for one in found.pods] == [("a", "a.yaml")]
    assert found.problems["b.yaml"][0] == "file b.yaml: pod default/a is given twice, first in a.yaml"


def test_a_config_map_in_two_files_counts_in_the_first() -> None:
    """Also for the pods of others."""
    found = combine_manifests({"a.yaml": MAP, "b.yaml": MAP.replace("1", "2"), "c.yaml": USER})
    assert [one.value for one in found.pods[0].containers[0].env] == ["1"]
    assert found.problems == {"b.yaml": ("file b.yaml: ConfigMap default/m is given twice, first in file a.yaml",)}


def test_an_exported_pod_can_be_read() -> None:
    """With everything that a cluster notes about it, and without access to the API server, which is not here."""
    text = """
apiVersion: v1
kind: Pod
metadata:
  annotations: {cni.projectcalico.org/podIP: 10.1.1.1/32}
  creationTimestamp: "2024-01-01T00:00:00Z"
  generateName: web-
  labels: {app: web, pod-template-hash: 5d4b}
  managedFields: [{apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {}}, manager: kubelet}]
  name: web-abcde
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: 1-2}]
  resourceVersion: "123"
  uid: 6e2b1f0c-1111-2222-3333-444455556666
spec:
  containers:
  - image: nginx:1.27
    imagePullPolicy: IfNotPresent
    name: web
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access-x7x2p, readOnly: true}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  nodeName: node-1
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: web
  serviceAccountName: web
  terminationGracePeriodSeconds: 30
  tolerations: [{effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}]
  volumes:
  - name: kube-api-access-x7x2p
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {expirationSeconds: 3607, path: token}
      - configMap: {items: [{key: ca.crt, path: ca.crt}], name: kube-root-ca.crt}
      - downwardAPI: {items: [{fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}, path: namespace}]}
status:
  phase: Running
  podIP: 10.1.1.1
"""
    [pod] = read_pods(text, "x")
    assert (pod.title, pod.uid, pod.service_account) == (
        "shop/web-abcde",
        "6e2b1f0c-1111-2222-3333-444455556666",
        "web",
    )
    assert (pod.volumes, pod.containers[0].volume_mounts) == ((), ())
    assert pod.document["status"] == {"phase": "Running", "podIP": "10.1.1.1"}


def test_a_uid_follows_what_the_manifest_says() -> None:
    """Comments, order and notes of a cluster do not count; a changed ConfigMap that it uses does."""
    one = read_pods(f"{USER}---\n{MAP}", "x")[0].uid
    noted = USER.replace("{name: u}", "{resourceVersion: '7', name: u}  # hello")
    assert read_pods(f"{noted}status: {{phase: Failed}}\n---\n{MAP}", "x")[0].uid == one
    assert read_pods(f"{USER}---\n{MAP.replace('1', '2')}", "x")[0].uid != one
    assert read_pods(f"{USER.replace('x:1', 'x:2')}---\n{MAP}", "x")[0].uid != one


def test_a_pod_that_is_being_deleted_is_the_same_pod() -> None:
    """Nothing of it is started any more, and its grace may be another."""
    gone = POD.replace(
        "{name: %s}", "{name: %s, deletionTimestamp: 2024-01-01T00:00:00Z, deletionGracePeriodSeconds: 3}"
    )
    [before], [after] = read_pods(POD % "a", "x"), read_pods(gone % "a", "x")
    assert (after.deleted, after.deletion_grace_period, after.uid) == (True, 3, before.uid)


def test_secrets_do_not_show() -> None:
    """Neither in a pod's text nor in a problem's."""
    text = (
        "kind: Secret\nmetadata: {name: s}\nstringData: {k: hush}\n---\nkind: Pod\nmetadata: {name: p}\nspec:\n"
        "  volumes: [{name: v, secret: {secretName: s}}]\n"
        "  containers: [{name: c, image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]\n"
    )
    [pod] = read_pods(text, "x")
    assert isinstance(pod.volumes[0].source, ProjectedFiles)
    assert pod.volumes[0].source.items[0].content == b"hush"
    assert pod.containers[0].env[0].value == "hush"
    assert "hush" not in repr(pod)
