"""Tar files are read from front to back, with bounded memory."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable

import pytest

from interpose.node.runtime.images.layers.tar_reader import StoppedError, TarBytes, data_of, decompress, entries
from tests.support.node.image_files import entry, layer, tar


def source(data: bytes, *, limit: int = 1 << 30, stopped: bool = False) -> TarBytes:
    """The bytes of a tar file."""
    return TarBytes(decompress(io.BytesIO(data)), limit=limit, stopped=lambda: stopped)


@pytest.mark.parametrize("compress", [False, True])
def test_entries_come_with_their_data_and_the_digest_is_that_of_all(compress: bool) -> None:
    """Whether the file is compressed or not, the digest is that of the tar file."""
    data = layer({"a": "1" * 1000, "b": "2", "c/": 0o755}) + b"\0" * 5000
    opened = source(gzip.compress(data) if compress else data)
    found = {member.name: b"".join(part for _, part in data_of(opened, member)) for member in entries(opened, most=9)}
    assert found == {"a": b"1" * 1000, "b": b"2", "c": b""}
    assert opened.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    assert opened.size == len(data)


def test_data_that_nobody_reads_is_passed_over() -> None:
    """And counts for the digest all the same."""
    data = layer({"a": "1" * 10_000, "b": ""})
    opened = source(data)
    assert [member.name for member in entries(opened, most=9)] == ["a", "b"]
    assert opened.digest == "sha256:" + hashlib.sha256(data).hexdigest()


def test_holes_are_told_by_the_places_of_data() -> None:
    """As GNU tar and pax write sparse files."""
    header = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "4096,4,100000,2"}
    header |= {"GNU.sparse.size": "200000", "GNU.sparse.name": "hole"}
    info, data = entry("x", data=b"datada")
    info.pax_headers = header
    opened = source(tar([(info, data)]))
    (member,) = [(one.name, one.size, list(data_of(opened, one))) for one in entries(opened, most=1)]
    assert member == ("hole", 200_000, [(4096, b"data"), (100_000, b"da")])


def test_too_many_bytes_and_entries_are_refused() -> None:
    """A small file may unfold into a large one."""
    data = gzip.compress(layer({"a": b"\0" * 1_000_000}))
    with pytest.raises(ValueError, match="larger than 100000 bytes when unpacked"):
        list(entries(source(data, limit=100_000), most=9))
    with pytest.raises(ValueError, match="more than 1 entries"):
        list(entries(source(layer({"a": "", "b": ""})), most=1))


def test_headers_are_kept_in_memory_and_may_not_be_large() -> None:
    """A long name, an attribute, or many headers one after the other."""
    info, _ = entry("x")
    info.pax_headers = {"comment": "y" * 2_000_000}
    with pytest.raises(ValueError, match="headers of more than"):
        list(entries(source(tar([(info, b"")])), most=9))


def test_global_headers_may_not_be_many() -> None:
    """They stay until the end of the file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", pax_headers={f"k{number}": "v" for number in range(2000)}) as archive:
        archive.addfile(entry("a")[0])
    with pytest.raises(ValueError, match="global headers"):
        list(entries(source(file.getvalue()), most=9))


def test_whoever_does_not_want_it_any_more_stops_it() -> None:
    """Between two pieces."""
    with pytest.raises(StoppedError):
        list(entries(source(layer({"a": ""}), stopped=True), most=9))


def test_a_file_that_ends_in_the_middle_is_refused() -> None:
    """Data that is announced and does not come."""
    opened = source(layer({"a": "1" * 5000})[:2000])
    with pytest.raises(ValueError, match="ends in the middle"):
        [list(data_of(opened, member)) for member in entries(opened, most=9)]


@pytest.mark.parametrize(("head", "name"), [(b"\xfd7zXZ\0", "xz"), (b"BZh91A", "bzip2")])
def test_other_compressions_are_named(head: bytes, name: str) -> None:
    """And what to use instead."""
    with pytest.raises(ValueError, match=f"compressed with {name}.*use gzip"):
        decompress(io.BytesIO(head))


def test_zstd_depends_on_python() -> None:
    """It says so, or reads it."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        with pytest.raises(ValueError, match=r"compressed with zstd.*3\.14"):
            decompress(io.BytesIO(b"\x28\xb5\x2f\xfd--"))
    else:
        assert decompress(io.BytesIO(zstd.compress(b"x"))).read(9) == b"x"


def test_going_back_is_refused() -> None:
    """Only what overlaps would want that."""
    opened = source(b"0123456789")
    assert opened.read(4) == b"0123"
    assert opened.seek(6) == 6
    assert (opened.read(9), opened.tell()) == (b"6789", 10)
    with pytest.raises(ValueError, match="overlap"):
        opened.seek(3)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:1024] + b"?" + data[1025:], id="a header whose sum is wrong"),
        pytest.param(lambda data: data[:1300], id="cut off in a header"),
        pytest.param(lambda data: data[:1024] + b"\0" * 512 + data[1024:], id="one empty block in the middle"),
    ],
)
def test_a_header_that_cannot_be_read_is_no_end(damage: Callable[[bytes], bytes]) -> None:
    """All that comes after it would be missing, and nobody would know."""
    with pytest.raises(ValueError, match="damaged or cut off: there is no header at byte"):
        list(entries(source(damage(layer({"a": "1", "b": "2", "c": "3"}))), most=9))


@pytest.mark.parametrize("end", [b"", b"\0" * 512, b"\0" * 1024 + b"whatever"])
def test_the_end_may_be_short_and_anything_may_follow_it(end: bytes) -> None:
    """Tools write two empty blocks and more, or forget them."""
    data = layer({"a": "1"})[:1024] + end
    assert [member.name for member in entries(source(data), most=9)] == ["a"]
