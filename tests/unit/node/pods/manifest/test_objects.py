"""ConfigMaps and Secrets beside pods, and the files that are made of them."""

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import FileItem, ProjectedFiles

HEAD = "kind: Pod\nmetadata: {name: p, namespace: %s}\n"
POD = HEAD + "spec: {containers: [{name: c, image: x}], volumes: [{name: v, %s}]}\n"
NOT_HERE = "is not among these manifests, put its document beside the pod"
MAP = "kind: ConfigMap\nmetadata: {name: m}\ndata: {b: text, a: ''}\nbinaryData: {c: /w==}\n"
SECRET = "kind: Secret\nmetadata: {name: s}\ntype: Opaque\ndata: {a: b2xk, b: /w==}\nstringData: {a: new}\n"


def files(volume: str, beside: str, namespace: str = "default") -> ProjectedFiles:
    """The files of a volume."""
    [pod] = read_pods(f"{beside}---\n{POD % (namespace, volume)}", "x")
    source = pod.volumes[0].source
    assert isinstance(source, ProjectedFiles)
    return source


def problems(volume: str, beside: str, namespace: str = "default") -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_pods(f"{beside}---\n{POD % (namespace, volume)}", "x")
    return [one.partition(": ")[2] for one in caught.value.problems]


def test_all_keys_become_files() -> None:
    """In the order of their names, texts and bytes."""
    assert files("configMap: {name: m}", MAP) == ProjectedFiles(
        items=(
            FileItem(path="a"),
            FileItem(path="b", content=b"text"),
            FileItem(path="c", content=b"\xff"),
        )
    )


def test_texts_of_a_secret_come_before_its_bytes() -> None:
    """As the API server merges them."""
    found = files("secret: {secretName: s, defaultMode: 0400}", SECRET)
    assert found == ProjectedFiles(
        items=(FileItem(path="a", content=b"new", secret=True), FileItem(path="b", content=b"\xff", secret=True)),
        default_mode=0o400,
    )


def test_some_keys_under_other_names() -> None:
    """With modes of their own."""
    found = files("configMap: {name: m, items: [{key: b, path: d/e, mode: 0600}]}", MAP)
    assert found.items == (FileItem(path="d/e", content=b"text", mode=0o600),)


def test_what_is_optional_may_be_missing() -> None:
    """The map, or a key of it."""
    assert files("configMap: {name: z, optional: true, defaultMode: 0400}", MAP) == ProjectedFiles(default_mode=0o400)
    assert files("configMap: {name: m, optional: true, items: [{key: z, path: z}]}", MAP) == ProjectedFiles()


def test_a_map_of_another_namespace_is_not_seen() -> None:
    """Names are only unique within one."""
    text = f"ConfigMap n/m {NOT_HERE}"
    assert problems("configMap: {name: m}", MAP, "n") == [f"spec.volumes[0].configMap: {text}"]
    assert files("configMap: {name: m}", MAP.replace("{name: m}", "{name: m, namespace: n}"), "n").items


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        (
            "configMap: {name: z}",
            f"spec.volumes[0].configMap: ConfigMap default/z {NOT_HERE}",
        ),
        (
            "configMap: {name: m, items: [{key: z, path: z}]}",
            "spec.volumes[0].configMap.items: ConfigMap m has no key 'z'",
        ),
        ("configMap: {}", "spec.volumes[0].configMap.name: is missing"),
        ("configMap: {name: m, defaultUser: 5}", "spec.volumes[0].configMap.defaultUser: is not supported"),
        (
            "configMap: {name: m, items: [{key: a, path: z}, {key: b, path: z}]}",
            "spec.volumes[0].configMap: two files are 'z'",
        ),
        (
            "configMap: {name: m, items: [{key: a, path: ../z}]}",
            "spec.volumes[0].configMap.items[0].path: expected a relative path without '..', found '../z'",
        ),
    ],
)
def test_files_that_cannot_be_made(volume: str, problem: str) -> None:
    """Each with what is missing."""
    assert problems(volume, MAP) == [problem]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("kind: ConfigMap\ndata: {}\n", "metadata: is missing"),
        ("kind: ConfigMap\nmetadata: {name: m}\ndta: {}\n", "dta: is not a known key, did you mean data?"),
        (
            "kind: ConfigMap\nmetadata: {name: m}\ndata: {'a b': x}\n",
            "'a b' is not a key of letters, digits, '-', '_' and '.'",
        ),
        (
            "kind: ConfigMap\nmetadata: {name: m}\ndata: {a: x}\nbinaryData: {a: eA==}\n",
            "'a' is in data and in binaryData",
        ),
        (
            "kind: ConfigMap\nmetadata: {name: m}\ndata: {a: 1}\n",
            "data['a']: expected text in quotes, found a number ('1')",
        ),
        (
            "kind: Secret\nmetadata: {name: m}\nstringData: {a: 1234}\n",
            "stringData['a']: expected text in quotes, found a number ('...')",
        ),
        ("kind: Secret\nmetadata: {name: m}\ndata: []\n", "data: expected a group of keys, found a list"),
        ("kind: Secret\nmetadata: {name: m}\ndata: {a: x}\n", "data['a']: is not base64"),
        ("kind: Secret\nmetadata: {name: m}\ndata: {a: \u00e9}\n", "data['a']: is not base64"),
        (
            "kind: Secret\nmetadata: {name: m}\nstringData: geheim\n",
            "stringData: expected a group of keys, found text ('...')",
        ),
    ],
)
def test_documents_that_are_none(document: str, problem: str) -> None:
    """Values of Secrets are not repeated."""
    assert problems("emptyDir: {}", document) == [problem]


def test_base64_may_be_folded() -> None:
    """As tools write it."""
    secret = "kind: Secret\nmetadata: {name: s}\ndata: {a: 'aGVs\n\n    bG8='}\n"
    assert files("secret: {secretName: s}", secret).items == (FileItem(path="a", content=b"hello", secret=True),)


def test_a_namespace_that_is_no_text_for_people_is_shown_in_escapes() -> None:
    """A message must not move a terminal's cursor."""
    volume = "configMap: {name: none}"
    with pytest.raises(ConfigError) as caught:
        read_pods(POD % ('"a\\e[2J"', volume), "f")
    assert [problem for problem in caught.value.problems if NOT_HERE in problem]
    assert all(problem.isprintable() for problem in caught.value.problems)
