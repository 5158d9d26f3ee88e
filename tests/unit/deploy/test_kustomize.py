"""deploy/kustomize: what kubectl makes of it, and whether Kubernetes would take it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.kube.deployed import kustomized
from tests.support.kube.kube_schema import manifest_problems
from tests.support.kube.manifests import Identity, by_identity, identity, problems
from tests.support.kube.plain_documents import Document, documents

FOLDERS = (
    "kustomize/base",
    "kustomize/overlays/self-signed",
    "kustomize/overlays/cert-manager",
    "kustomize/options/network-policy",
    "kustomize/options/node-guard",
    "kustomize/options/policy-objects",
    "crds",
    "crds/policies",
)
OVERLAYS = ("kustomize/overlays/self-signed", "kustomize/overlays/cert-manager")
# Of cert-manager; everything else is Kubernetes' own.
OF_OTHERS = ("cert-manager.io/v1 Issuer", "cert-manager.io/v1 Certificate")
# Made by the job, or by cert-manager.
CERTIFICATE = Identity("Secret", "interpose-system", "interpose-webhook-tls")
# The first with a kustomize that takes directories as resources.
MINOR = 21


@pytest.fixture(scope="module")
def kubectls() -> list[str]:
    """The installed kubectl, and one of another version if INTERPOSE_KUBECTL names it, to see that both agree."""
    names = [name for name in ("kubectl", os.environ.get("INTERPOSE_KUBECTL", "")) if name and shutil.which(name)]
    found = [name for name in names if minor(name) >= MINOR]
    if not found:
        pytest.skip(f"no kubectl of version 1.{MINOR} or newer is installed")
    return found


def minor(kubectl: str) -> int:
    """20 of 1.20."""
    told = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    return int(re.sub(r"\D", "", json.loads(told.stdout)["clientVersion"]["minor"]))


def rendered(kubectl: str, folder: Path) -> list[Document]:
    """What kubectl makes of a kustomization, without a word of warning."""
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return documents(done.stdout, str(folder))


@pytest.mark.parametrize("name", FOLDERS)
def test_kubectl_renders_what_the_files_say(kubectls: list[str], deploy: Path, name: str) -> None:
    """Every object of the files, and no other."""
    expected = {identity(one) for one in kustomized(deploy / name)}

    for kubectl in kubectls:
        assert {identity(one) for one in rendered(kubectl, deploy / name)} == expected


def test_kubectl_changes_nothing_it_is_not_told_to(kubectls: list[str], deploy: Path) -> None:
    """Names, namespaces and selectors are those of the files: nothing is prefixed or labelled behind our back."""
    folder = deploy / "kustomize/overlays/self-signed"
    expected = by_identity(kustomized(folder))

    for kubectl in kubectls:
        assert by_identity(rendered(kubectl, folder)) == expected


def test_cert_manager_is_told_whose_authority_to_inject(kubectls: list[str], deploy: Path) -> None:
    """The patch arrives, and names the Certificate of the same overlay."""
    for kubectl in kubectls:
        found = by_identity(rendered(kubectl, deploy / "kustomize/overlays/cert-manager"))
        webhook = found[Identity("MutatingWebhookConfiguration", "", "interpose")]
        certificate = found[Identity("Certificate", "interpose-system", "interpose-webhook")]

        assert webhook["metadata"]["annotations"] == {
            "cert-manager.io/inject-ca-from": "interpose-system/interpose-webhook"
        }
        assert len(webhook["webhooks"]) == 1
        assert certificate["spec"]["secretName"] == CERTIFICATE.name


@pytest.mark.parametrize("name", FOLDERS)
def test_kubernetes_schemas_have_every_field(deploy: Path, name: str) -> None:
    """No unknown field, no wrong type, nothing required missing."""
    for document in kustomized(deploy / name):
        if f"{document['apiVersion']} {document['kind']}" not in OF_OTHERS:
            assert manifest_problems(document) == [], identity(document)


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_objects_name_is_there(deploy: Path, name: str) -> None:
    """Accounts, roles, services, ports, volumes; the certificate is made later."""
    assert problems(kustomized(deploy / name), [CERTIFICATE]) == []


def test_options_belong_to_what_they_restrict(deploy: Path) -> None:
    """Beside an overlay they name what is there, and nothing twice."""
    everything = [
        document
        for name in ("overlays/self-signed", "options/network-policy", "options/node-guard", "options/policy-objects")
        for document in kustomized(deploy / "kustomize" / name)
    ]
    found = by_identity(everything)
    webhook = found[Identity("Deployment", "interpose-system", "interpose-webhook")]
    policy = found[Identity("NetworkPolicy", "interpose-system", "interpose-webhook")]
    guard = found[Identity("ValidatingAdmissionPolicy", "", "interpose-agent-node")]
    binding = found[Identity("ValidatingAdmissionPolicyBinding", "", "interpose-agent-node")]
    ports = {port["name"] for port in webhook["spec"]["template"]["spec"]["containers"][0]["ports"]}

    assert problems(everything, [CERTIFICATE]) == []
    assert policy["spec"]["podSelector"] == webhook["spec"]["selector"]
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports
    assert "system:serviceaccount:interpose-system:interpose-agent" in guard["spec"]["matchConditions"][0]["expression"]
    assert binding["spec"]["policyName"] == guard["metadata"]["name"]


def test_nothing_newer_than_old_kubectls_is_used(deploy: Path) -> None:
    """Fields of kustomizations that the kustomize of kubectl 1.21 knows, and that none since calls deprecated."""
    known = {"apiVersion", "kind", "resources", "images", "patches"}

    for path in deploy.rglob("kustomization.yaml"):
        [found] = documents(path.read_text(), str(path))
        assert found.keys() <= known, path
