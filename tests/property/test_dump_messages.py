"""Laws of what looks at messages that passed: any bytes, and no secret behind redaction."""

import json
from typing import Any

from google.protobuf.message import Message as Protobuf
from hypothesis import given
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.decode.decode import Decoder
from interpose.dump.decode.raw_protobuf import MAX_SUMMARY, wire_summary
from interpose.dump.model.call import Assembler, CallEventKind
from interpose.dump.model.frames import Begin, End, Frame, Header, Message, MessageSide, Packing
from interpose.dump.model.subject import Subjects
from interpose.dump.output.json import flow_document
from interpose.dump.redact.frames import Redactor, parse_redaction
from interpose.dump.redact.json import JsonSecrets
from interpose.dump.redact.patterns import hide_credentials, hide_option, hide_token
from interpose.testing.recordings import filled

SECRET = "TopSecret"
paths = st.sampled_from([method.paths[0] for method in METHODS.values()] + ["/x/Y"])
redactions = st.sampled_from(["default", "strict", "none", "env:A*,-env:AB", "default,-env:*,-output", "command"])


def _bodies() -> st.SearchStrategy[bytes]:
    """Anything: noise, real messages, real messages that were damaged."""
    names = sorted({name for method in METHODS.values() for name in (method.request, method.response)})
    real = st.sampled_from(names).map(lambda name: bytes(filled(name).SerializeToString()))
    damaged = st.builds(
        lambda data, at, byte: data[: at % (len(data) + 1)] + byte + data[at % (len(data) + 1) :],
        real,
        st.integers(0, 5000),
        st.binary(max_size=2),
    )
    return st.binary(max_size=60) | real | damaged


def _messages(number: int) -> st.SearchStrategy[Message]:
    return st.builds(
        lambda side, packing, body, size: Message(
            number=number, at=0, side=side, packing=packing, size=len(body) if size is None else size, body=body
        ),
        st.sampled_from(MessageSide),
        st.sampled_from(Packing),
        _bodies(),
        st.none() | st.integers(0, 100),
    )


texts = st.text(max_size=20)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(lambda path, pairs: Begin(number=1, time=0, path=path, metadata=tuple(pairs)), paths | texts,
              st.lists(st.tuples(texts, texts), max_size=3)),
    _messages(1),
    _messages(2),
    st.builds(lambda text: End(number=1, elapsed=0, code=2, message=text), texts),
    st.builds(lambda session: Header(facts={"session": session}), st.sampled_from("ab")),
)  # fmt: skip


@given(redactions, paths, st.lists(frames, max_size=8))
def test_no_frames_make_anything_fail(redaction: str, path: str, given_frames: list[Frame]) -> None:
    """Redacting twice is redacting once, and what is behind it can be decoded, named and shown."""
    first, second = Redactor(parse_redaction(redaction)), Redactor(parse_redaction(redaction))
    subjects, decoder = Subjects(), Decoder()
    assembler = Assembler(subjects.identify)
    for frame in [Begin(number=1, time=0, path=path), *given_frames]:
        redacted = first.frame(frame)
        assert second.frame(redacted) == redacted
        event = assembler.feed(redacted)
        if event.kind in (CallEventKind.MESSAGE, CallEventKind.END):
            assert event.flow is not None
            json.dumps(flow_document(event.flow, decoder), allow_nan=False)
    json.dumps(subjects.context())


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_have_a_short_summary(data: bytes, contents: bool) -> None:
    """On one line, and without contents none of the bytes can be in it."""
    summary = wire_summary(data, contents=contents)
    assert summary.startswith(f"{len(data)} bytes, ")
    assert len(summary) <= MAX_SUMMARY + 3
    assert "\n" not in summary


@given(st.binary(min_size=5, max_size=30).map(lambda data: data.hex().encode()))
def test_a_summary_without_contents_tells_no_value(secret: bytes) -> None:
    """Neither of a text nor of one deep inside."""
    request = cri.CreateContainerRequest(config=cri.ContainerConfig(envs=[cri.KeyValue(key="A", value=secret)]))
    assert secret.decode() not in wire_summary(request.SerializeToString(), contents=False)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["env", "envs", "Env", "key", "value", "annotations", "x.Labels", "auth", "args", "token"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(redactions, json_values, st.booleans())
def test_any_json_can_be_looked_through(redaction: str, document: Any, nested: bool) -> None:
    """What comes out is JSON again, and stays as it is when looked through once more."""
    secrets = JsonSecrets(parse_redaction(redaction))
    text = json.dumps({"annotations": {"x.Annotations": json.dumps(document)}} if nested else document)
    shown = secrets.text(text)
    json.loads(shown)
    assert secrets.text(shown) == shown


def _variables(value: Any) -> Any:
    return st.sampled_from(
        [
            {"envs": [{"key": "A", "value": value}]},
            {"env": [f"A={value}"]},
            {"Env": {"A": value}},
            {"annotations": {"my-token": value}},
            {"annotations": {"y.Annotations": json.dumps({"my-token": value})}},
            {"auth": {"password": value}},
            {"auth": {"x": [value]}},
            {"x": json.dumps({"env": [f"A={value}"]})},
            {"history": [{"created_by": value}]},
            {"endpoint": f"https://u:{value}@h/"},
        ]
    )


@given(_variables(SECRET), st.lists(st.sampled_from(["config", "runtimeSpec", "x", "process"]), max_size=4))
def test_a_secret_in_json_is_found_wherever_it_is(document: Any, path: list[str]) -> None:
    """Deep inside of objects and lists."""
    for name in path:
        document = {name: [document, 1], "other": "shown"}
    shown = JsonSecrets(parse_redaction("default")).text(json.dumps(document))
    assert SECRET not in shown
    assert not path or "shown" in shown


@given(st.text(max_size=80))
def test_hiding_in_texts_twice_is_hiding_once(text: str) -> None:
    """Whatever the text is."""
    assert hide_credentials(hide_credentials(text)) == hide_credentials(text)
    assert hide_token(hide_token(text)) == hide_token(text)


@given(
    st.text("abc:/?#@=&; \"'", max_size=40)
    | st.lists(
        st.sampled_from(
            ["://", "@", ":", "a", "1", "/", " ", '"', "token=", "%26", "sha256:ab", "Bearer ", "Authorization:"]
        )
    ).map("".join)
)
def test_hiding_in_texts_that_look_like_urls_twice_is_hiding_once(text: str) -> None:
    """The marks of URLs in any order."""
    once = hide_credentials("a://" + text)
    assert hide_credentials(once) == once
    assert hide_token(hide_token("a://" + text)) == hide_token("a://" + text)
    assert hide_option(hide_option(text)) == hide_option(text)


@given(st.text("abc1:/?#'&;=%\\ ", max_size=40), st.text("ab1.", max_size=5))
def test_no_password_of_a_url_is_shown(password: str, host: str) -> None:
    """Whatever it is made of, but for what begins like a port."""
    shown = hide_credentials(f"pull https://user:x{SECRET}{password}{SECRET}@{host}/: EOF")
    assert SECRET not in shown


def _with_secrets(message: Protobuf) -> None:
    """Put the secret wherever the default has to find it."""
    for descriptor in message.DESCRIPTOR.fields:
        value = getattr(message, descriptor.name)
        if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
            if descriptor.name.endswith(("annotations", "labels")):
                value["a-token"] = SECRET
            if descriptor.name == "info":
                value["info"] = json.dumps({"config": {"envs": [{"key": "A", "value": SECRET}]}})
                value["other"] = SECRET
        elif descriptor.message_type is not None:
            for part in value if descriptor.is_repeated else [value]:
                _with_secrets(part)
        elif message.DESCRIPTOR.name == "AuthConfig" and descriptor.name not in ("username", "server_address"):
            setattr(message, descriptor.name, SECRET)
        elif isinstance(value, bytes):  # variables and output
            setattr(message, descriptor.name, SECRET.encode())
        elif descriptor.name == "url":
            setattr(message, descriptor.name, f"http://h/exec/{SECRET}")


@given(st.sampled_from(sorted(METHODS)), st.sampled_from(MessageSide), st.sampled_from(["default", "strict"]))
def test_no_method_lets_a_secret_through(name: str, side: MessageSide, redaction: str) -> None:
    """Every kind of message, every place in it, on every side of a call."""
    method = METHODS[name]
    message = filled(method.response if side.is_reply else method.request)
    _with_secrets(message)
    body = message.SerializeToString()
    redactor = Redactor(parse_redaction(redaction))
    redactor.frame(Begin(number=1, time=0, path=method.paths[0]))
    shown = redactor.frame(Message(number=1, at=0, side=side, size=len(body), body=body))
    assert isinstance(shown, Message)
    assert shown.packing is Packing.PLAIN
    assert SECRET.encode() not in shown.body
