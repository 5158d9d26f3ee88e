"""Who may fetch a pod's images."""

import base64
import json
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.pull_secrets import auths_for
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import PodSpec, PullAuth
from tests.support.node.pod_model import make_pod


def text(data: dict[str, str], names: str = "[{name: s}]") -> str:
    """A pod with a Secret beside it."""
    secret = json.dumps({"kind": "Secret", "metadata": {"name": "s"}, "stringData": data})
    spec = f"{{imagePullSecrets: {names}, containers: [{{name: c, image: x}}]}}"
    return f"{secret}\n---\nkind: Pod\nmetadata: {{name: p}}\nspec: {spec}\n"


def read(data: dict[str, str], names: str = "[{name: s}]") -> PodSpec:
    """The pod."""
    return read_pods(text(data, names), "x")[0]


def modern(**auths: Any) -> dict[str, str]:
    """A Secret as it is made today."""
    return {".dockerconfigjson": json.dumps({"auths": auths})}


def test_both_forms_of_secrets_are_read() -> None:
    """Of today and of long ago; a name and password may stand together."""
    both = base64.b64encode(b"u:p:q").decode()
    expected = (PullAuth(registry="r.example", username="u", password="p:q"),)
    assert read(modern(**{"https://r.example/v2/": {"auth": both}})).pull_auths == expected
    assert read({".dockercfg": json.dumps({"r.example": {"username": "u", "password": "p:q"}})}).pull_auths == expected


def test_tokens_are_read() -> None:
    """Some registries want nothing else."""
    [found] = read(modern(r={"identitytoken": "i", "registrytoken": "t"})).pull_auths
    assert (found.username, found.identity_token, found.registry_token) == ("", "i", "t")


def test_a_secret_that_is_not_here_is_no_problem() -> None:
    """The image is then fetched as anybody may."""
    assert read({"a": "b"}, "[{name: z}]").pull_auths == ()


def test_the_secret_is_part_of_what_the_pod_is() -> None:
    """A new password is a reason to try again."""
    first, second = (read(modern(r={"username": "u", "password": one})) for one in ("a", "b"))
    assert first.uid != second.uid


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"a": "b"}, "Secret s has neither the key .dockerconfigjson nor .dockercfg"),
        ({".dockerconfigjson": "{"}, "Secret s has no JSON under .dockerconfigjson"),
        ({".dockerconfigjson": "[]"}, "Secret s has no registries under .dockerconfigjson"),
        ({".dockercfg": '{"r": 1}'}, "Secret s has no registries under .dockercfg"),
        (modern(r={"auth": "*"}), "Secret s has an auth that is not base64"),
        (modern(r={"auth": "/w=="}), "Secret s has an auth that is not base64"),
        (modern(r={"auth": "\u00e9"}), "Secret s has an auth that is not base64"),
        ({".dockerconfigjson": "[" * 100_000}, "Secret s has no JSON under .dockerconfigjson"),
    ],
)
def test_secrets_that_are_none(data: dict[str, str], problem: str) -> None:
    """Nothing of what is in them is repeated."""
    with pytest.raises(ConfigError) as caught:
        read(data)
    assert caught.value.problems == [f"x document 2 line 5: spec.imagePullSecrets[0]: {problem}"]


def test_names_must_be_names() -> None:
    """As everywhere."""
    with pytest.raises(ConfigError, match=r"imagePullSecrets: expected a list"):
        read({}, "{name: s}")


def _pod(*registries: str) -> PodSpec:
    return make_pod(pull_auths=tuple(PullAuth(registry=one, username=one) for one in registries))


@pytest.mark.parametrize(
    ("registries", "image", "chosen"),
    [
        (("docker.io",), "nginx", ["docker.io"]),
        (("docker.io",), "library/nginx:1", ["docker.io"]),
        (("docker.io",), "index.docker.io/library/nginx", ["docker.io"]),
        (("docker.io",), "r.example/nginx", []),
        (("r.example",), "r.example/a/b:1", ["r.example"]),
        (("r.example", "*.example", "r.example/a"), "r.example/a/b:1", ["r.example/a", "r.example", "*.example"]),
        (("*.example/a", "r.example", "s.example"), "r.example/a", ["r.example", "*.example/a"]),
        (("r.example/a",), "r.example/ab", []),
        (("r.example/a",), "r.example/a", ["r.example/a"]),
        (("*.example",), "r.example/a", ["*.example"]),
        (("*.example",), "x.r.example/a", []),
        (("app*.k8s.io",), "app1.k8s.io/a", ["app*.k8s.io"]),
        (("app?.k8s.io",), "app.k8s.io/a", []),
        (("app*.k8s.io",), "App1.k8s.io/a", []),
        (("*.example:5000",), "r.example:5000/a", ["*.example:5000"]),
        (("*.example", "*.example:*"), "r.example:5000/a", []),
        (("localhost:5000",), "localhost:5000/a", ["localhost:5000"]),
        (("[::1]:5000",), "[::1]:5000/a", ["[::1]:5000"]),
        (("localhost",), "localhost/a", ["localhost"]),
        ((), "a", []),
    ],
)
def test_which_registry_is_shown_what(registries: tuple[str, ...], image: str, chosen: list[str]) -> None:
    """All whose names fit, the ones that say most about it first."""
    assert [one.username for one in auths_for(_pod(*registries), image)] == chosen


def test_of_equals_the_first_is_shown_first() -> None:
    """As they stand in the manifest."""
    both = tuple(PullAuth(registry="r.example", username=one) for one in "ba")
    assert auths_for(make_pod(pull_auths=both), "r.example/x") == both


def test_names_of_the_hub_are_one() -> None:
    """However tools have written it down."""
    [found] = read(modern(**{"https://index.docker.io/v1/": {"username": "u"}})).pull_auths
    assert found.registry == "docker.io"


def test_a_registry_may_have_a_path() -> None:
    """Then it is for a part only."""
    [found] = read(modern(**{"r.example/team": {"username": "u"}})).pull_auths
    assert found.registry == "r.example/team"
