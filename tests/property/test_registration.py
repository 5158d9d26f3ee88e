"""Laws of registration files: rendering loses nothing, and no text does anything but parse or fail properly."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import HookServer, Selector, parse_registration, render_registration

FILE = "/etc/runtime/hookserver.d/a.json"
KEYS = ["remote-endpoint", "failure-policy", "runtime-hooks", "priority", "timeout", "selector", "Timeout", "x"]
PARTS = ["namespaces", "labels", "runtime-handlers", "Labels"]

words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
paths = st.lists(words.map(lambda word: word.replace("/", "-")[:8]), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
servers = st.builds(
    HookServer,
    name=st.just("a"),
    file=st.just(FILE),
    endpoint=paths.filter(lambda path: len(path.encode()) <= 107),
    hooks=st.frozensets(st.sampled_from(HookPoint)),
    failure_policy=st.sampled_from(FailurePolicy),
    priority=st.integers(0, 1000),
    timeout=st.none() | st.floats(0.001, 60.0),
    selector=st.builds(
        Selector,
        namespaces=st.frozensets(words, max_size=3),
        labels=st.dictionaries(words, words | st.just(""), max_size=3),
        runtime_handlers=st.frozensets(words | st.just(""), max_size=3),
    ),
)
leaves: Any = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.sampled_from(["/run/a.sock", "unix:/a", "Fail", "PreRunPodSandbox", "PreRemoveRunPodSandbox", "5s"])
)
documents = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS + PARTS), inner, max_size=6),
    max_leaves=20,
)


def outcome(text: str) -> HookServer | list[str]:
    """The hook server, or what is wrong."""
    try:
        return parse_registration(text, FILE).server
    except ConfigError as error:
        return error.problems


def check(text: str) -> None:
    """Parsed, or refused with messages that name the file and fit a screen."""
    found = outcome(text)
    if isinstance(found, HookServer):
        assert found.endpoint.startswith("/")
        assert outcome(render_registration(found)) == found
    else:
        assert found
        assert all(problem.startswith(f"file {FILE}") and len(problem) < 500 for problem in found)


@given(servers)
def test_what_is_rendered_is_read_back(server: HookServer) -> None:
    """Every value a registration can have."""
    assert parse_registration(render_registration(server), FILE).server == server


@given(st.text(st.characters()))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """Surrogates and control characters included."""
    check(text)


@given(documents)
def test_any_json_parses_or_is_refused(document: object) -> None:
    """Right keys with wrong values, wrong keys, nesting, numbers JSON does not have."""
    check(json.dumps(document))
    check(json.dumps({"remote-endpoint": "/a", "runtime-hooks": ["PreRunPodSandbox"], "selector": document}))
