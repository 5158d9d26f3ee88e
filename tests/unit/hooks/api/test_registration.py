"""Registration files: what is accepted, what is refused, and how it is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import (
    EVERY_POD,
    HookServer,
    ParsedRegistration,
    Selector,
    parse_registration,
    render_registration,
)

FILE = "/etc/runtime/hookserver.d/a.json"
SAMPLES = Path(__file__).parents[4] / "samples/hookserver.d"
GOOD: dict[str, Any] = {"remote-endpoint": "/run/a.sock", "runtime-hooks": ["PreRunPodSandbox"]}


def parse(document: object) -> ParsedRegistration:
    """Parse a document, or the text of one."""
    return parse_registration(document if isinstance(document, str) else json.dumps(document), FILE)


def problems(document: object) -> list[str]:
    """What is said about a file that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        parse(document)
    return caught.value.problems


def test_the_smallest_file_gets_the_defaults() -> None:
    """Ignore, priority 100, the relay's timeout, every pod; the name is that of the file."""
    server, warnings = parse(GOOD)
    assert server == HookServer(
        name="a",
        file=FILE,
        endpoint="/run/a.sock",
        hooks=frozenset({HookPoint.PRE_RUN_POD_SANDBOX}),
        failure_policy=FailurePolicy.IGNORE,
        priority=100,
        timeout=None,
        selector=EVERY_POD,
    )
    assert warnings == ()


def test_the_samples_are_valid() -> None:
    """What we show to people works: koordlet's own file, and one with every key."""
    koordlet = parse_registration((SAMPLES / "koordlet.json").read_text(), "koordlet.json")
    assert koordlet.server.hooks == frozenset(HookPoint)
    example = parse_registration((SAMPLES / "example.json").read_text(), "example.json")
    assert example.warnings == koordlet.warnings == ()
    assert example.server == HookServer(
        name="example",
        file="example.json",
        endpoint="/var/run/example/hooks.sock",
        hooks=frozenset({HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER}),
        failure_policy=FailurePolicy.FAIL,
        priority=50,
        timeout=0.5,
        selector=Selector(
            namespaces=frozenset({"batch"}),
            labels={"example.com/tier": "gold"},
            runtime_handlers=frozenset({"", "kata"}),
        ),
    )


@pytest.mark.parametrize("text", ["/run/a.sock", "unix:///run/a.sock", "unix:/run/a.sock", "UNIX:///run/a.sock"])
def test_endpoints_are_written_in_several_ways(text: str) -> None:
    """All of them name the same absolute path."""
    assert parse(GOOD | {"remote-endpoint": text}).server.endpoint == "/run/a.sock"


@pytest.mark.parametrize(
    ("value", "policy"),
    [("Fail", FailurePolicy.FAIL), ("Ignore", FailurePolicy.IGNORE), ("", FailurePolicy.IGNORE), (None, "Ignore")],
)
def test_the_failure_policy_defaults_to_ignore(value: object, policy: str) -> None:
    """Missing, empty and null are the default, as koordlet's file may have it."""
    assert parse(GOOD | {"failure-policy": value}).server.failure_policy == policy


@pytest.mark.parametrize(
    ("value", "seconds"), [("500ms", 0.5), ("2s", 2.0), (2, 2.0), (0.25, 0.25), ("1m", 60.0), (None, None)]
)
def test_timeouts_are_numbers_of_seconds_or_text_with_a_unit(value: object, seconds: float | None) -> None:
    """The same forms as in the settings."""
    assert parse(GOOD | {"timeout": value}).server.timeout == seconds


def test_keys_match_without_regard_to_case() -> None:
    """As Go's decoder does it: a file that works there works here."""
    server = parse({"Remote-Endpoint": "/run/a.sock", "RUNTIME-HOOKS": ["PreRunPodSandbox"], "PRIORITY": 7}).server
    assert (server.endpoint, server.priority) == ("/run/a.sock", 7)


def case(key: str, value: object, *said: str) -> Any:
    """A bad value of a key, and what is said about it after the name of the file."""
    return pytest.param(
        GOOD | {key: value}, [f"file {FILE} line 1: {key}{text}" for text in said], id=f"{key}={value!r:.30}"
    )


@pytest.mark.parametrize(
    ("document", "said"),
    [
        case("remote-endpoint", "", ": the endpoint is empty, expected /path, unix:///path or unix:/path"),
        case("remote-endpoint", "run/a.sock", ": 'run/a.sock' is not absolute, expected /path"),
        case("remote-endpoint", "tcp://1.2.3.4:5", ": 'tcp://1.2.3.4:5' has the scheme tcp, only unix sockets"),
        case("remote-endpoint", "unix://run/a", ": 'unix://run/a' takes 'run' for a host name, did you mean unix:///"),
        case("remote-endpoint", "/run/\0a", r": '/run/\x00a' holds a character that cannot be printed"),
        case("remote-endpoint", "/run/\ud800", r": '/run/\ud800' holds a character that cannot be printed"),
        case("remote-endpoint", "/" + "x" * 107, ": '/xxx"),
        case("remote-endpoint", "/" + "ü" * 54, ": '/üüü"),
        case("remote-endpoint", "/" + "x" * 500_000, ": '/xxx"),
        case("remote-endpoint", "@abstract", ": '@abstract' names an abstract socket"),
        case("remote-endpoint", 7, ": expected text, found a whole number ('7')"),
        case("failure-policy", "fail", ": 'fail' is neither Fail nor Ignore, did you mean Fail?"),
        case("failure-policy", "Bogus", ": 'Bogus' is neither Fail nor Ignore"),
        case("failure-policy", True, ": expected text, found true"),
        case("runtime-hooks", "PreRunPodSandbox", ": expected a list, found text ('PreRunPodSandbox')"),
        case("runtime-hooks", {"a": 1}, ": expected a list, found a group of keys"),
        case(
            "runtime-hooks",
            ["PreRunPodSandbox", "PreRunPodSandBox", 5, "Bogus"],
            "[1]: 'PreRunPodSandBox' is not a hook point, did you mean PreRunPodSandbox?",
            "[2]: expected text, found a whole number ('5')",
            "[3]: 'Bogus' is not a hook point",
        ),
        case("runtime-hooks", ["x"] * 257, ": has 257 entries, at most 256 are allowed"),
        case("priority", -1, ": '-1' is out of range: allowed are 0 to 1000"),
        case("priority", 1001, ": '1001' is out of range: allowed are 0 to 1000"),
        case("priority", int("9" * 4000), ": '999"),
        case("priority", 1.5, ": expected a whole number, found a number with a fraction ('1.5')"),
        case("priority", "50", ": expected a whole number, found text ('50')"),
        case("priority", True, ": expected a whole number, found true"),
        case("timeout", 0, ": '0' is out of range: allowed are 1ms to 1m"),
        case("timeout", "2h", ": '2h' is out of range: allowed are 1ms to 1m"),
        case("timeout", -1, ": '-1' is not a time such as"),
        case("timeout", 1e300, ": '1e+300' is not a time such as"),
        case("timeout", "soon", ": 'soon' is not a time such as"),
        case("timeout", [2], ': expected a time such as 2 or "500ms", found a list'),
        case("timeout", False, ': expected a time such as 2 or "500ms", found false'),
        case("selector", [], ": expected a group of keys, found a list"),
        case("selector", {"namespace": ["a"]}, ": 'namespace' is not a known key, did you mean namespaces?"),
        case("selector", {"namespaces": "a"}, ": namespaces: expected a list, found text ('a')"),
        case("selector", {"namespaces": ["a", ""]}, ": namespaces: '' is not the name of a namespace"),
        case(
            "selector",
            {"namespaces": 1, "labels": {"a": 1, "": "x", "b": "\n"}, "runtime-handlers": [None]},
            ": namespaces: expected a list, found a whole number ('1')",
            ": labels['a']: expected text, found a whole number ('1')",
            ": labels['']: is not the name of a label",
            r": labels['b']: '\n' holds a character that cannot be printed",
            ": runtime-handlers[0]: expected text, found null",
        ),
        case("selector", {"labels": {str(number): "x" for number in range(257)}}, ": labels: has 257 entries"),
        case("selector", {str(number): 1 for number in range(65)}, ": has 65 keys, this is not a registration file"),
    ],
)
def test_a_bad_value_is_named_with_file_and_key(document: object, said: list[str]) -> None:
    """The message says where, what, and what is expected, and is never long."""
    found = problems(document)
    assert [text[: len(start)] for text, start in zip(found, said, strict=True)] == said
    assert all(len(text) < 400 for text in found)


def test_every_problem_is_reported_at_once() -> None:
    """Nobody has to fix a file five times."""
    bad = {"remote-endpoint": "a", "failure-policy": "b", "runtime-hooks": ["c"], "priority": "d", "timeout": "e"}
    assert [text.removeprefix(f"file {FILE} line 1: ").split(":")[0] for text in problems(bad)] == [
        "remote-endpoint",
        "failure-policy",
        "runtime-hooks[0]",
        "priority",
        "timeout",
    ]


def test_missing_endpoint_is_named_with_what_is_expected() -> None:
    """Null counts as missing."""
    socket = "the socket of the hook server: /path, unix:///path or unix:/path"
    assert problems({"remote-endpoint": None}) == [f"file {FILE}: remote-endpoint: is missing, expected {socket}"]


@pytest.mark.parametrize("hooks", [{}, {"runtime-hooks": []}, {"runtime-hooks": None}], ids=repr)
def test_file_without_hooks_registers_nothing(hooks: dict[str, object]) -> None:
    """A koordlet whose stages are all disabled writes such a file: its hooks of before must not stay in force."""
    parsed = parse_registration(json.dumps({"remote-endpoint": "/a", **hooks}), FILE)
    assert parsed.server.hooks == frozenset()
    assert parsed.warnings == (f"file {FILE}: runtime-hooks: names no hook point, the file registers nothing",)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('"Remote-endpoint": "/b"', "'Remote-endpoint'"),
        ('"x": 1, "x": 2', "'x'"),
        ('"selector": {"labels": {}, "Labels": {}}', "selector: 'Labels'"),
        ('"selector": {"labels": {"a": "", "a": ""}}', "selector: labels['a']:"),
    ],
)
def test_duplicate_keys_are_errors(extra: str, said: str) -> None:
    """Which of the two its author meant is anybody's guess."""
    assert problems(json.dumps(GOOD)[:-1] + f", {extra}}}") == [f"file {FILE} line 1: {said} is given twice"]


def test_labels_differ_by_case() -> None:
    """Only our own keys match loosely."""
    labels = {"a": "1", "A": "2"}
    assert parse(GOOD | {"selector": {"labels": labels}}).server.selector.labels == labels


def test_problems_name_the_line_of_the_key() -> None:
    """Also inside the selector."""
    text = """{
  "remote-endpoint": "a.sock",
  "runtime-hooks": [
    "Bogus"
  ],
  "selector": {
    "labels": {"a": 1},
    "namespace": ["x"]
  }
}"""
    places = ["line 2: remote", "line 3: runtime-hooks[0]", "line 7: selector: labels[", "line 8: selector: 'name"]
    found = problems(text)
    assert [
        one[: len(place)]
        for one, place in zip((one.removeprefix(f"file {FILE} ") for one in found), places, strict=True)
    ] == places


def test_bad_json_names_line_and_column() -> None:
    """As an editor shows them."""
    assert problems('{\n  "remote-endpoint": "/a"\n  "x": 1}') == [
        f"file {FILE} line 3 column 3: is not valid JSON: Expecting ',' delimiter"
    ]


def test_unknown_keys_are_warnings() -> None:
    """A file for a newer version still works."""
    server, warnings = parse(GOOD | {"retry-policy": "Never", "x" * 100: 1})
    assert server.failure_policy is parse(GOOD).server.failure_policy
    assert warnings == (
        f"file {FILE} line 1: 'retry-policy' is not a known key, did you mean failure-policy?",
        f"file {FILE} line 1: '{'x' * 77}...' is not a known key",
    )


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("failure-polcy", "failure-policy"),
        ("failure_policy", "failure-policy"),
        ("failurePolicy", "failure-policy"),
        ("Prioritty", "priority"),
        ("timeuot", "timeout"),
        ("selectors", "selector"),
    ],
)
def test_a_slip_of_a_known_key_is_a_problem(slip: str, meant: str) -> None:
    """With the default in its place, a hook server that must be asked would be left out in silence."""
    text = json.dumps(GOOD | {slip: "Fail"})
    assert problems(text) == [f"file {FILE} line 1: {slip!r} is not a known key, did you mean {meant}?"]


def test_a_hook_that_is_never_called_is_a_warning() -> None:
    """Koordlet knows the name; alone it registers nothing, which is worth saying."""
    both = parse(GOOD | {"runtime-hooks": ["PreRemoveRunPodSandbox", "PreRunPodSandbox", "PreRunPodSandbox"]})
    assert both.server.hooks == {HookPoint.PRE_RUN_POD_SANDBOX}
    assert both.warnings == (
        f"file {FILE} line 1: runtime-hooks[0]: 'PreRemoveRunPodSandbox' is never called, it has no effect",
        f"file {FILE} line 1: runtime-hooks[2]: 'PreRunPodSandbox' is given twice",
    )
    alone = parse(GOOD | {"runtime-hooks": ["PreRemoveRunPodSandbox"]})
    assert alone.server.hooks == frozenset()
    assert alone.warnings[-1] == f"file {FILE}: runtime-hooks: names no hook point, the file registers nothing"


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (Selector(), True),
        (Selector(namespaces=frozenset({"a", "b"})), True),
        (Selector(namespaces=frozenset({"b"})), False),
        (Selector(labels={"x": "1"}), True),
        (Selector(labels={"x": "1", "y": ""}), False),
        (Selector(labels={"x": "2"}), False),
        (Selector(runtime_handlers=frozenset({"kata"})), False),
        (Selector(runtime_handlers=frozenset({""})), True),
        (Selector(namespaces=frozenset({"a"}), labels={"x": "2"}), False),
        (Selector(namespaces=frozenset({"a"}), labels={"x": "1"}, runtime_handlers=frozenset({""})), True),
    ],
)
def test_all_given_parts_of_a_selector_must_match(selector: Selector, matches: bool) -> None:
    """A pod in namespace a with label x=1 and the default runtime handler."""
    assert selector.matches("a", {"x": "1", "z": "3"}, "") is matches


def test_servers_can_be_keys() -> None:
    """Equal registrations have equal hashes, labels or not."""
    one = replace(parse(GOOD).server, selector=Selector(labels={"a": "b"}))
    assert {one, replace(one, selector=Selector(labels={"a": "b"}))} == {one}


def test_a_rendered_file_is_pretty_and_says_only_what_differs() -> None:
    """The three well-known keys are always there."""
    assert render_registration(parse(GOOD).server) == (
        '{\n  "remote-endpoint": "/run/a.sock",\n  "failure-policy": "Ignore",\n'
        '  "runtime-hooks": [\n    "PreRunPodSandbox"\n  ]\n}\n'
    )


@pytest.mark.parametrize("name", ["koordlet.json", "example.json"])
def test_rendering_gives_the_same_value_back(name: str) -> None:
    """Also for a file with every key."""
    server = parse_registration((SAMPLES / name).read_text(), name).server
    assert parse_registration(render_registration(server), name) == (server, ())


def test_a_server_without_hooks_survives_rendering() -> None:
    """It came from a file that names only what is never called, and goes back to one."""
    server = replace(parse(GOOD).server, hooks=frozenset())
    assert parse(render_registration(server)).server == server
