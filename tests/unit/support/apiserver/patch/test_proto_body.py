"""Objects that kubectl sends as protobuf."""

import pytest

from tests.support.apiserver.patch.proto_body import read_protobuf
from tests.support.apiserver.problems import RefusedError


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _envelope(kind: str, raw: bytes, version: str = "v1") -> bytes:
    said = _field(1, version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, said) + _field(2, raw) + _field(3, b"") + _field(4, b"")


def _entry(key: bytes, value: bytes) -> bytes:
    return _field(1, key) + _field(2, value)


_NAMED = _field(
    1, _field(1, b"x") + _field(3, b"d") + _field(14, b"f") + _field(11, _entry(b"a", b"b")) + _field(8, b"")
)


def test_a_config_map() -> None:
    """Texts, bytes, flags; fields nobody needs are passed over."""
    raw = _NAMED + _field(2, _entry(b"k", b"v")) + _field(3, _entry(b"b", b"\xff")) + bytes([4 << 3, 1])
    assert read_protobuf(_envelope("ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "d", "finalizers": ["f"], "labels": {"a": "b"}},
        "data": {"k": "v"},
        "binaryData": {"b": "/w=="},
        "immutable": True,
    }


def test_a_long_value() -> None:
    """Its size takes two bytes."""
    entry = bytes([1 << 3 | 2, 1]) + b"k" + bytes([2 << 3 | 2, 0xAC, 0x02]) + b"v" * 300
    raw = bytes([2 << 3 | 2, 0x80 | (len(entry) & 0x7F), len(entry) >> 7]) + entry
    inner = bytes([2 << 3 | 2, 0x80 | (len(raw) & 0x7F), len(raw) >> 7]) + raw
    said = _field(1, _field(1, b"v1") + _field(2, b"ConfigMap"))
    assert read_protobuf(b"k8s\x00" + said + inner)["data"] == {"k": "v" * 300}


def test_options_of_a_deletion() -> None:
    """Preconditions and dry runs."""
    raw = _field(2, _field(1, b"id")) + _field(5, b"All")
    read = read_protobuf(_envelope("DeleteOptions", raw))
    assert (read["preconditions"], read["dryRun"]) == ({"uid": "id"}, ["All"])


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{}", 400),
        (_envelope("Pod", _NAMED), 415),
        (_envelope("ConfigMap", b"\x0a\x7f"), 400),
        (_envelope("ConfigMap", b"\x08\x01"), 400),
        (_envelope("ConfigMap", b"\x0d\x01"), 400),
        (_envelope("ConfigMap", _field(1, _field(1, b"\xff"))), 400),
        (b"k8s\x00\x80", 400),
    ],
    ids=["json", "unknown kind", "too short", "number", "wire type", "no text", "cut"],
)
def test_what_is_refused(raw: bytes, code: int) -> None:
    """Nothing but a refusal comes out."""
    with pytest.raises(RefusedError) as caught:
        read_protobuf(raw)
    assert caught.value.code == code
