"""Frames without secrets."""

import json
import zlib
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.dump.model.call import KEPT_CALLS
from interpose.dump.model.frames import (
    Begin,
    Context,
    DamagedFrameError,
    Dropped,
    End,
    Frame,
    Header,
    Message,
    MessageSide,
    Packing,
)
from interpose.dump.redact.frames import WITHHELD, Redactor, parse_redaction
from interpose.testing.recordings import every_method_frames

R = "<redacted>"


def begin(name: str, number: int = 1, metadata: tuple[tuple[str, str], ...] = ()) -> Begin:
    """A call of a method."""
    method = METHODS.get(name)
    return Begin(number=number, time=0, path=method.paths[0] if method else f"/x/{name}", metadata=metadata)


def frame(message: Any, side: MessageSide = MessageSide.REQUEST, number: int = 1) -> Message:
    """A message of it."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return Message(number=number, at=5, side=side, size=len(body), body=body)


def redacted(name: str, message: Any, side: MessageSide = MessageSide.REQUEST, redaction: str = "default") -> Message:
    """A message behind a redactor; it stays the same behind another."""
    redactor = Redactor(parse_redaction(redaction))
    redactor.frame(begin(name))
    once = redactor.frame(frame(message, side))
    assert isinstance(once, Message)
    assert redactor.frame(once) == once
    return once


def login() -> cri.PullImageRequest:
    """A request with credentials."""
    auth = cri.AuthConfig(
        username="me",
        password="p1",
        auth="p2",
        identity_token="p3",
        registry_token="p4",
        server_address="https://u:p5@host/",
    )
    auth.MergeFromString(b"\xa2\x06\x02p6")
    return cri.PullImageRequest(image=cri.ImageSpec(image="busybox"), auth=auth)


def create() -> cri.CreateContainerRequest:
    """A request with most of what there is."""
    return cri.CreateContainerRequest(
        pod_sandbox_id="p",
        config=cri.ContainerConfig(
            command=["sh"],
            args=["-c", ""],
            envs=[cri.KeyValue(key="PATH", value=b"/bin"), cri.KeyValue(key="B", value=b"\xff"), cri.KeyValue(key="C")],
            labels={"app": "web", "secret-of": "x"},
            annotations={"token": "x", "owner": "me", "empty-token": ""},
        ),
        sandbox_config=cri.PodSandboxConfig(
            labels={"io.kubernetes.pod.name": "web"}, annotations={"password": "x", "team": "a"}
        ),
    )


@pytest.mark.parametrize("redaction", ["default", "strict", "label:x"])
def test_registry_credentials_are_hidden_whatever_else_is(redaction: str) -> None:
    """Also those that a later version may send; who logs in where stays."""
    hidden = cri.PullImageRequest.FromString(redacted("PullImage", login(), redaction=redaction).data)
    assert hidden.image.image == "busybox"
    assert hidden.auth == cri.AuthConfig(
        username="me",
        password=R,
        auth=R,
        identity_token=R,
        registry_token=R,
        server_address=f"https://{R}@host/",
    )


def test_a_container_is_created_with_hidden_variables_and_annotations() -> None:
    """Of the container and of its pod; what is empty stays so."""
    hidden = cri.CreateContainerRequest.FromString(redacted("CreateContainer", create()).data)
    assert [(one.key, one.value) for one in hidden.config.envs] == [("PATH", R.encode()), ("B", R.encode()), ("C", b"")]
    assert dict(hidden.config.labels) == {"app": "web", "secret-of": R}
    assert dict(hidden.config.annotations) == {"token": R, "owner": "me", "empty-token": ""}
    assert dict(hidden.sandbox_config.annotations) == {"password": R, "team": "a"}
    assert list(hidden.config.command) == ["sh"]


def test_strict_hides_annotations_labels_and_commands() -> None:
    """But not which pod it is."""
    hidden = cri.CreateContainerRequest.FromString(redacted("CreateContainer", create(), redaction="strict").data)
    assert (list(hidden.config.command), list(hidden.config.args)) == ([R], [R, ""])
    assert dict(hidden.config.labels) == {"app": R, "secret-of": R}
    assert dict(hidden.sandbox_config.annotations) == {"password": R, "team": R}
    assert dict(hidden.sandbox_config.labels) == {"io.kubernetes.pod.name": "web"}


def test_strict_drops_what_it_does_not_know() -> None:
    """Anywhere in a message."""
    request = cri.StopContainerRequest(container_id="c")
    request.MergeFromString(b"\xa2\x06\x06SECRET")
    assert redacted("StopContainer", request, redaction="strict").data == b"\n\x01c"
    assert b"SECRET" in redacted("StopContainer", request).data


def test_unknown_fields_are_dropped_where_secrets_are() -> None:
    """A field that a later version adds to a container may be one."""
    request = cri.CreateContainerRequest(config=cri.ContainerConfig(mounts=[cri.Mount(container_path="/m")]))
    known = request.SerializeToString()
    request.config.mounts[0].MergeFromString(b"\xa2\x06\x06SECRET")
    assert redacted("CreateContainer", request).data == known


def test_options_of_mounts_are_hidden_by_their_names() -> None:
    """All of them if the redaction says so."""
    mount = cri.Mount(container_path="/m", mount_options=["ro", "vers=3,password=x,y", "credentials=/z"])
    request = cri.CreateContainerRequest(config=cri.ContainerConfig(mounts=[mount]))

    def shown(redaction: str) -> list[str]:
        message = redacted("CreateContainer", request, redaction=redaction)
        return list(cri.CreateContainerRequest.FromString(message.data).config.mounts[0].mount_options)

    assert shown("default") == ["ro", f"vers=3,password={R}", f"credentials={R}"]
    assert shown("strict") == ["ro", f"vers={R},password={R}", f"credentials={R}"]


@pytest.mark.parametrize("name", ["CheckpointPod", "RestorePod"])
def test_options_of_checkpoints_are_hidden_by_their_names(name: str) -> None:
    """They are for the runtime, and may be anything."""
    kind = getattr(cri, f"{name}Request")
    request = kind(options={"passphrase": "x", "level": "3", "to": "https://u:p@h/"})
    shown = kind.FromString(redacted(name, request).data)
    assert dict(shown.options) == {"passphrase": R, "level": "3", "to": f"https://{R}@h/"}
    shown = kind.FromString(redacted(name, request, redaction="strict").data)
    assert dict(shown.options) == {"passphrase": R, "level": R, "to": R}


def test_values_of_annotations_are_looked_through() -> None:
    """Also those with unsuspicious names."""
    container = cri.Container(
        annotations={"x": '{"env":["A=SECRET"]}', "y": "https://u:SECRET@h/", "z": "[plain]"}, labels={"a": "b"}
    )
    message = redacted("ListContainers", cri.ListContainersResponse(containers=[container]), MessageSide.REPLY)
    (shown,) = cri.ListContainersResponse.FromString(message.data).containers
    assert dict(shown.annotations) == {"x": f'{{"env":["A={R}"]}}', "y": f"https://{R}@h/", "z": "[plain]"}


def test_a_variable_that_is_taken_away_from_the_list_is_shown() -> None:
    """And only that."""
    message = redacted("CreateContainer", create(), redaction="default,-env:path")
    hidden = cri.CreateContainerRequest.FromString(message.data)
    assert [one.value for one in hidden.config.envs] == [b"/bin", R.encode(), b""]


@pytest.mark.parametrize("side", [MessageSide.REQUEST, MessageSide.FORWARDED])
def test_what_the_runtime_got_is_redacted_like_what_came(side: MessageSide) -> None:
    """A hook may have added a secret."""
    assert b"p1" not in redacted("PullImage", login(), side).data


@pytest.mark.parametrize("side", [MessageSide.RECEIVED, MessageSide.REPLY])
def test_what_came_back_is_redacted_like_what_the_caller_got(side: MessageSide) -> None:
    """Both have the output of a command."""
    message = redacted("ExecSync", cri.ExecSyncResponse(stdout=b"x", stderr=b"", exit_code=1), side)
    assert message.data == cri.ExecSyncResponse(stdout=R.encode(), exit_code=1).SerializeToString()


def test_output_is_shown_if_it_shall_be() -> None:
    """By taking the item away."""
    message = redacted("ExecSync", cri.ExecSyncResponse(stdout=b"x"), MessageSide.REPLY, "default,-output")
    assert message.data == b"\n\x01x"


@pytest.mark.parametrize("name", ["Exec", "Attach", "PortForward"])
def test_the_url_of_a_stream_lets_nobody_in(name: str) -> None:
    """It would work once, for whoever comes first."""
    reply = getattr(cri, f"{name}Response")(url=f"http://127.0.0.1:1/{name.lower()}/Token")
    assert b"Token" not in redacted(name, reply, MessageSide.REPLY).data


def test_the_info_of_a_verbose_answer_is_looked_through() -> None:
    """It repeats the whole request."""
    info = json.dumps({"config": {"envs": [{"key": "A", "value": "SECRET"}]}, "pid": 7})
    message = redacted(
        "ContainerStatus", cri.ContainerStatusResponse(info={"info": info, "x": "SECRET"}), MessageSide.REPLY
    )
    hidden = cri.ContainerStatusResponse.FromString(message.data)
    assert b"SECRET" not in message.data
    assert json.loads(hidden.info["info"])["pid"] == 7


def test_lists_and_events_are_looked_through() -> None:
    """Every part of every message of a stream."""
    event = cri.ContainerEventResponse(
        containers_statuses=[
            cri.ContainerStatus(id="a", annotations={"token": "SECRET"}, message="pull https://u:SECRET@h: EOF")
        ]
    )
    redactor = Redactor(parse_redaction("default"))
    redactor.frame(begin("GetContainerEvents"))
    for _message in range(2):
        hidden = redactor.frame(frame(event, MessageSide.REPLY))
        assert isinstance(hidden, Message)
        assert b"SECRET" not in hidden.data
        assert b"https://<redacted>@h: EOF" in hidden.data


def test_a_message_with_nothing_to_hide_is_the_very_same() -> None:
    """If it says so in the same bytes."""
    redactor = Redactor(parse_redaction("default"))
    redactor.frame(begin("ListContainers"))
    listed = frame(cri.ListContainersResponse(containers=[cri.Container(id="c", labels={"a": "b"})]), MessageSide.REPLY)
    assert redactor.frame(listed) is listed


def test_a_packed_message_is_redacted_and_comes_back_unpacked() -> None:
    """Its size is that of what is there now, so that it can be packed again."""
    data = login().SerializeToString()
    redactor = Redactor(parse_redaction("default"))
    redactor.frame(begin("PullImage"))
    packed = Message(
        number=1, at=0, side=MessageSide.REQUEST, packing=Packing.ZLIB, size=len(data), body=zlib.compress(data)
    )
    hidden = redactor.frame(packed)
    assert isinstance(hidden, Message)
    assert (hidden.packing, hidden.size) == (Packing.PLAIN, len(hidden.body))
    assert b"p1" not in hidden.body


def test_a_secret_that_a_later_field_replaces_is_not_left_in_the_bytes() -> None:
    """A parser reads the last one only."""
    twice = cri.ExecResponse(url="http://h/exec/SECRET").SerializeToString() + b"\n\x00"
    assert redacted("Exec", twice, MessageSide.REPLY).data == b""


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def test_a_secret_in_an_entry_that_another_replaces_is_not_left_in_the_bytes() -> None:
    """Even if the message is as long as it would be when written anew: entries without a value get one."""
    annotations, labels = (cri.Container.DESCRIPTOR.fields_by_name[name].number for name in ("annotations", "labels"))
    twice = b"".join(_field(annotations, _field(1, b"token") + _field(2, value)) for value in (b"SECRET", b""))
    for key in b"abcdefgh":
        twice += _field(labels, _field(1, bytes([key])))
    container = cri.Container.FromString(twice + _field(labels, _field(1, b"i") + b"\x12\x00"))
    body = _field(1, twice)
    short = len(body) - cri.ListContainersResponse.FromString(body).ByteSize()
    assert (short, len(container.labels)) == (1, 9)
    assert b"SECRET" not in redacted("ListContainers", body, MessageSide.REPLY).data


@pytest.mark.parametrize(
    ("name", "body"), [("MakeCoffee", b"\x0a\x06SECRET"), ("PullImage", b"\xff"), ("PullImage", b"\x0a\xffSECRET")]
)
def test_what_cannot_be_read_is_withheld(name: str, body: bytes) -> None:
    """With its size, its structure and how to see it."""
    message = redacted(name, body)
    assert message.packing is Packing.ABSENT
    assert message.size == len(body)
    assert message.absent.startswith(f"{WITHHELD}: {len(body)} bytes")
    assert "SECRET" not in message.absent


def test_a_message_of_a_call_nobody_saw_begin_is_withheld() -> None:
    """It could be anything."""
    hidden = Redactor(parse_redaction("default")).frame(frame(login()))
    assert isinstance(hidden, Message)
    assert hidden.packing is Packing.ABSENT


def test_a_damaged_message_is_withheld() -> None:
    """And says that it is."""
    redactor = Redactor(parse_redaction("default"))
    redactor.frame(begin("PullImage"))
    hidden = redactor.frame(Message(number=1, at=0, side=MessageSide.REQUEST, packing=Packing.ZLIB, size=9, body=b"x"))
    assert isinstance(hidden, Message)
    assert hidden.absent == f"{WITHHELD}: 9 bytes, damaged"
    assert hidden.size == 9


def test_a_message_that_marks_make_too_large_is_withheld() -> None:
    """It would not fit into a frame."""
    redactor = Redactor(parse_redaction("default"), largest=5)
    redactor.frame(begin("PullImage"))
    hidden = redactor.frame(frame(login()))
    assert isinstance(hidden, Message)
    assert hidden.packing is Packing.ABSENT


def test_a_message_that_was_not_kept_stays_so() -> None:
    """Its text says why, and is no message."""
    absent = Message(number=1, at=0, side=MessageSide.REQUEST, packing=Packing.ABSENT, size=9, body=b"too large")
    assert Redactor(parse_redaction("default")).frame(absent) is absent


def test_secret_metadata_is_hidden() -> None:
    """By its key; URLs in others lose their credentials."""
    shown = Redactor(parse_redaction("default")).frame(
        begin("Version", metadata=(("user-agent", "kubelet"), ("authorization", "Bearer x"), ("via", "http://u:p@h")))
    )
    assert isinstance(shown, Begin)
    assert shown.metadata == (("user-agent", "kubelet"), ("authorization", R), ("via", f"http://{R}@h"))


def test_a_failure_keeps_its_text_without_credentials() -> None:
    """It is the first thing one reads."""
    end = End(number=1, elapsed=1, code=2, message="GET https://u:p@host/: 401")
    shown = Redactor(parse_redaction("default")).frame(end)
    assert isinstance(shown, End)
    assert shown.message == f"GET https://{R}@host/: 401"


@pytest.mark.parametrize(
    "other",
    [
        End(number=1, elapsed=1, code=5, message="not found"),
        begin("Version", metadata=(("user-agent", "x"),)),
        Dropped(frames=1, size=2, time=3),
        Context(facts={"pods": {}}),
        Header(facts={}),
    ],
)
def test_frames_without_secrets_are_the_very_same(other: Frame) -> None:
    """Nothing is written anew for nothing."""
    assert Redactor(parse_redaction("default")).frame(other) is other


def test_none_leaves_everything_alone() -> None:
    """Whoever asks for it gets the bytes that passed."""
    redactor = Redactor(parse_redaction("none"))
    for one in (begin("PullImage", metadata=(("authorization", "x"),)), frame(login()), frame(b"\xff")):
        assert redactor.frame(one) is one


def test_a_number_means_another_call_after_the_end_of_the_first() -> None:
    """And a message that comes too late is of none."""
    redactor = Redactor(parse_redaction("default"))
    redactor.frame(begin("Version"))
    redactor.frame(End(number=1, elapsed=1, code=0))
    hidden = redactor.frame(frame(b"\x0a\x01x"))
    assert isinstance(hidden, Message)
    assert hidden.packing is Packing.ABSENT


def test_calls_of_another_relay_process_are_forgotten() -> None:
    """Their numbers would name other methods; a second header of the same process changes nothing."""
    redactor = Redactor(parse_redaction("default"))
    version = frame(b"\x0a\x01x")
    redactor.frame(Header(facts={"session": "a"}))
    redactor.frame(begin("Version"))
    redactor.frame(Header(facts={"session": "a"}))
    assert redactor.frame(version) is version
    redactor.frame(Header(facts={"session": "b"}))
    assert redactor.frame(version) is not version


def test_calls_that_never_end_are_not_kept_for_ever() -> None:
    """The oldest one is let go of, and its messages are withheld."""
    redactor = Redactor(parse_redaction("default"))
    for number in range(KEPT_CALLS + 1):
        redactor.frame(begin("Version", number))
    first, last = frame(b"\x0a\x01x", number=0), frame(b"\x0a\x01x", number=KEPT_CALLS)
    assert redactor.frame(first) is not first
    assert redactor.frame(last) is last


@pytest.mark.parametrize("redaction", ["default", "strict", "command"])
def test_messages_of_all_methods_stay_readable(redaction: str) -> None:
    """With every field set, nothing is withheld and nothing fails to unpack."""
    redactor = Redactor(parse_redaction(redaction))
    count = 0
    for one in map(redactor.frame, every_method_frames()):
        if isinstance(one, Message):
            count += 1
            assert one.packing is Packing.PLAIN
            try:
                assert len(one.data) == one.size
            except DamagedFrameError:
                pytest.fail("cannot be unpacked")
    assert count > 150


def test_metadata_that_comes_again_is_hidden_again() -> None:
    """Also what is too long to be remembered, and when there was much else in between."""
    redactor = Redactor(parse_redaction("default"))
    cases = [(("authorization", "Bearer abc"), ("user-agent", "go")), (("x-token", "t" * 2000),), ()]
    hidden = [(("authorization", R), ("user-agent", "go")), (("x-token", R),), ()]
    for number in range(300):
        other = begin("Version", number, (("x-number", f"a=b,password={number}"),))
        assert redactor.frame(other) == other._replace(metadata=(("x-number", f"a=b,password={R}"),))
        for case, expected in zip(cases, hidden, strict=True):
            assert redactor.frame(begin("Version", number, case)) == begin("Version", number, expected)
