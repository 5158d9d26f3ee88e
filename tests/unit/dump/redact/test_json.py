"""Secrets in the JSON of verbose answers."""

import json
from typing import Any

import pytest

from interpose.config.dump_redaction import parse_redaction
from interpose.dump.redact.json import JsonSecrets

R = "<redacted>"


def hidden(document: Any, redaction: str = "default") -> Any:
    """A document as it is shown."""
    secrets = JsonSecrets(parse_redaction(redaction))
    shown = secrets.info("info", json.dumps(document))
    assert secrets.info("info", shown) == shown, "hiding twice is hiding once"
    return json.loads(shown)


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"config": {"envs": [{"key": "A", "value": "x"}]}}, {"config": {"envs": [{"key": "A", "value": R}]}}),
        ({"config": {"envs": [{"Name": "A", "value": "x"}]}}, {"config": {"envs": [{"Name": "A", "value": R}]}}),
        ({"envs": [{"value": "x", "more": {"a": ["y", 1]}}]}, {"envs": [{"value": R, "more": {"a": [R, R]}}]}),
        ({"process": {"env": ["A=x=y", "B=", "C"]}}, {"process": {"env": [f"A={R}", "B=", "C"]}}),
        ({"imageSpec": {"config": {"Env": ["A=x"]}}}, {"imageSpec": {"config": {"Env": [f"A={R}"]}}}),
        ({"env": {"A": "x", "B": 1}}, {"env": {"A": R, "B": R}}),
        ({"env": [["A", "x"], 1]}, {"env": [[R, R], R]}),
        ({"env": "A=x"}, {"env": R}),
        ({"default_env": ["A=x"]}, {"default_env": [f"A={R}"]}),
        ({"Environment": ["A=x"]}, {"Environment": [f"A={R}"]}),
    ],
)
def test_variables_are_hidden_in_every_form(document: Any, shown: Any) -> None:
    """Those of the request, of the OCI spec and of an image."""
    assert hidden(document) == shown


def test_a_variable_that_is_not_hidden_is_shown_in_every_form() -> None:
    """As in the message itself."""
    document = {"envs": [{"key": "PATH", "value": "/bin"}], "env": ["PATH=/bin", "X=y"], "Env": {"PATH": "/bin"}}
    assert hidden(document, "default,-env:PATH") == {**document, "env": ["PATH=/bin", f"X={R}"]}


def test_annotations_and_labels_are_hidden_by_their_keys() -> None:
    """Wherever there is such a map, and whatever stands in front of its name."""
    document = {"podAnnotations": {"my-token": "x", "owner": "me"}, "Labels": {"password": "x", "app": "web"}}
    assert hidden(document) == {
        "podAnnotations": {"my-token": R, "owner": "me"},
        "Labels": {"password": R, "app": "web"},
    }


def test_annotations_inside_of_annotations_are_hidden() -> None:
    """CRI-O keeps all annotations and labels of a pod as JSON in annotations of the OCI spec."""
    inner = json.dumps({"my-token": "x", "owner": "me"})
    shown = hidden({"annotations": {"io.kubernetes.cri-o.Annotations": inner, "io.kubernetes.cri-o.Labels": "{}"}})
    assert json.loads(shown["annotations"]["io.kubernetes.cri-o.Annotations"]) == {"my-token": R, "owner": "me"}
    assert shown["annotations"]["io.kubernetes.cri-o.Labels"] == "{}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("no JSON", R), ('["x"]', f'["{R}"]'), ('"x"', f'"{R}"'), ('{"a":1,"a":2}', R), ("[" * 100_000, R)],
)
def test_annotations_that_should_be_the_json_of_a_map_and_are_not_show_nothing(text: str, shown: str) -> None:
    """Nobody knows what is in there."""
    assert hidden({"annotations": {"x.Annotations": text}}) == {"annotations": {"x.Annotations": shown}}


def test_annotations_that_are_no_map_show_nothing() -> None:
    """In whatever shape they come."""
    assert hidden({"annotations": ["x", 1, None]}) == {"annotations": [R, R, None]}


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (
            {"registry": {"configs": {"h": {"auth": {"username": "u", "password": "x", "identity_token": "y"}}}}},
            {"registry": {"configs": {"h": {"auth": {"username": R, "password": R, "identity_token": R}}}}},
        ),
        ({"headers": {"Authorization": ["x"]}}, {"headers": {"Authorization": [R]}}),
        ({"headers": {"X-Registry-Auth": ["x"]}}, {"headers": {"X-Registry-Auth": [R]}}),
        ({"credentials": {"a": {"b": 1}}}, {"credentials": {"a": {"b": R}}}),
        ({"auths": {"host": {"x": "y"}}}, {"auths": {"host": {"x": R}}}),
        ({"auth": "x"}, {"auth": R}),
        ({"client-secret": "x", "apiKey": "y"}, {"client-secret": R, "apiKey": R}),
        ({"endpoint": "https://u:p@h/"}, {"endpoint": f"https://{R}@h/"}),
    ],
)
def test_logins_in_the_settings_of_a_runtime_are_hidden(document: Any, shown: Any) -> None:
    """Its settings are shown to whoever asks for its state."""
    assert hidden(document) == shown


@pytest.mark.parametrize(
    "name",
    [
        "secretKey",
        "aws_secret_access_key",
        "passwordHash",
        "accessKey",
        "passphrase",
        "bearer",
        "identitytoken",
        "pwd",
        "idJWT",
        ".dockerconfigjson",
        "api_key",
    ],
)
@pytest.mark.parametrize("value", ["x", 123456, 1.5, ["x"], {"a": "x"}])
def test_what_has_a_secret_name_is_hidden_whatever_it_is(name: str, value: Any) -> None:
    """A password may be a number."""
    shown = json.dumps(hidden({"a": {name: value}}))
    assert R in shown
    assert json.dumps(value).strip('[]{}"') not in shown


@pytest.mark.parametrize("name", ["author", "snapshotKey", "passedBy", "session", "environmentId"])
def test_other_names_are_no_secrets(name: str) -> None:
    """Verbose answers are there to be read."""
    assert hidden({name: "x"}) == {name: "x"}


def test_switches_are_no_secrets() -> None:
    """Even if they sound so."""
    document = {"useToken": True, "noPassword": False, "token": None, "labels": None, "secret": ""}
    assert hidden(document) == document


def test_how_an_image_was_built_is_hidden() -> None:
    """It has the variables of the image and of the build in it; when it was built stays."""
    step = {
        "created": "2025",
        "created_by": "RUN |1 TOKEN=x /bin/sh -c make",
        "comment": "ENV A=x",
        "empty_layer": True,
    }
    assert hidden({"imageSpec": {"history": [step]}}) == {
        "imageSpec": {"history": [{**step, "created_by": R, "comment": R}]}
    }


@pytest.mark.parametrize("key", ["runtimeSpec", "x"])
def test_json_held_as_a_text_is_looked_through(key: str) -> None:
    """Under any name, and again inside of it."""
    inner = {"process": {"env": ["A=SECRET"]}, "x": json.dumps({"y": json.dumps([{"token": "SECRET"}])})}
    shown = hidden({key: f" {json.dumps(inner)}"})
    assert "SECRET" not in json.dumps(shown)
    assert json.loads(shown[key])["process"] == {"env": [f"A={R}"]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[default] see https://u:p@h/", f"[default] see https://{R}@h/"),
        ("{{ name }}", "{{ name }}"),
        ('{"a":1,"a":2}', R),
        ("[" * 100_000, R),
        ("[1" + "0" * 10_000 + "]", R),
        ('{"a": [1, "b"]}', '{"a": [1, "b"]}'),
        ("plain", "plain"),
    ],
)
def test_a_text_that_need_not_be_json_is_hidden_only_if_it_cannot_be_looked_through(text: str, shown: str) -> None:
    """Many texts begin with a bracket."""
    secrets = JsonSecrets(parse_redaction("default"))
    assert secrets.any_text(text) == shown
    assert secrets.any_text(shown) == shown


def test_values_of_annotations_are_looked_through() -> None:
    """Also those with unsuspicious names."""
    shown = hidden({"annotations": {"x": json.dumps({"env": [{"name": "A", "value": "SECRET"}]}), "y": "u:SECRET@h"}})
    assert "SECRET" not in json.dumps(shown)


def test_the_key_of_a_value_counts() -> None:
    """The map of a verbose answer is like the objects in it."""
    secrets = JsonSecrets(parse_redaction("default"))
    assert secrets.info("env", '["A=x"]') == f'["A={R}"]'
    assert secrets.info("token", '"x"') == f'"{R}"'


def test_options_of_mounts_are_hidden_by_their_names_or_all() -> None:
    """As a list, and as a map; other options are what they are."""
    document = {"options": ["ro", "uid=0", "password=x"], "mount_options": {"secret": "x", "size": "1"}}
    other = {"options": [1, {"a": "b"}]}
    assert hidden({**document, "a": other}) == {
        "options": ["ro", "uid=0", f"password={R}"],
        "mount_options": {"secret": R, "size": "1"},
        "a": other,
    }
    assert hidden({**document, "a": other}, "options") == {
        "options": ["ro", f"uid={R}", f"password={R}"],
        "mount_options": {"secret": R, "size": R},
        "a": other,
    }


def test_commands_are_shown_unless_they_shall_not() -> None:
    """In the request, in the OCI spec, of an image."""
    document = {"config": {"command": ["sh"], "args": ["-c", "x"]}, "process": {"args": ["sh", ""]}, "Cmd": ["y"]}
    assert hidden(document) == document
    assert hidden(document, "command") == {
        "config": {"command": [R], "args": [R, R]},
        "process": {"args": [R, ""]},
        "Cmd": [R],
    }


def test_a_text_with_nothing_to_hide_stays_as_it_was() -> None:
    """To the last blank."""
    text = '{"sandboxID": "x",\n "pid": 3, "list": ["a", {"b": 1.50}]}'
    assert JsonSecrets(parse_redaction("default")).text(text) == text


@pytest.mark.parametrize("text", ["SECRET{", '{"a":"SECRET","a":1}', "[" * 100_000, '<redacted>{"env":["A=SECRET"]}'])
def test_what_cannot_be_read_for_certain_is_withheld(text: str) -> None:
    """All of it, and it stays that way."""
    secrets = JsonSecrets(parse_redaction("default"))
    shown = secrets.text(text)
    assert shown == f"<redacted>: {len(text)} characters that are not JSON"
    assert secrets.text(shown) == shown


def test_nothing_stays_nothing() -> None:
    """An empty text is not JSON, and no secret."""
    assert JsonSecrets(parse_redaction("default")).text("") == ""


def test_half_of_a_character_survives() -> None:
    """JSON can name it, UTF-8 cannot."""
    shown = JsonSecrets(parse_redaction("default")).text('{"env":["A=x"],"b":"\\ud800","c":"\\u00e4"}')
    assert shown == '{"env":["A=<redacted>"],"b":"\\ud800","c":"ä"}'


@pytest.mark.parametrize(
    ("key", "text"), [("lastCNILoadStatus", "OK"), ("lastCNILoadStatus.default", "no net"), ("golang", "go1.24")]
)
def test_plain_words_of_the_runtime_are_shown(key: str, text: str) -> None:
    """They are not JSON, and what one looks for when a node is not ready."""
    assert JsonSecrets(parse_redaction("default")).info(key, text) == text
