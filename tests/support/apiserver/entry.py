"""Files by which clients find the server: a kubeconfig, and what a pod has of its service account."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.support.net.certificates import Pair


def write_kubeconfig(
    path: Path, url: str, ca: str, *, token: str = "", pair: Pair | None = None, namespace: str = ""
) -> Path:
    """As kubectl writes one, in JSON, which is YAML too."""
    cluster: dict[str, Any] = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = _encoded(ca)
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if pair is not None:
        user |= {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}
    context = {"cluster": "test", "user": "test"} | ({"namespace": namespace} if namespace else {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": context}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def write_service_account(
    folder: Path, place: tuple[str, int], ca: str, *, token: str, namespace: str
) -> dict[str, str]:
    """The three files of an account; returns the variables of a pod."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("token", token), ("ca.crt", ca), ("namespace", namespace)):
        (folder / name).write_text(text)
    return {"KUBERNETES_SERVICE_HOST": place[0], "KUBERNETES_SERVICE_PORT": str(place[1])}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
