"""The table of what an answer may change: complete, documented, and with limits that hold."""

from pathlib import Path
from typing import Any

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.dispatch.fields import CONTAINER_FIELDS, POD_FIELDS, Absence, HookFieldKind, fields_of, split_path

PAGE = Path(__file__).parents[4] / "docs" / "hooks" / "answers.md"
FIELDS = {**POD_FIELDS, **CONTAINER_FIELDS}


def named(answer: Any) -> set[str]:
    """Paths of all fields of an answer, those of its resources one by one."""
    found = set()
    for field in answer.DESCRIPTOR.fields:
        if field.name == "clear":
            continue
        if field.message_type is not None and field.message_type.name == "LinuxContainerResources":
            found |= {f"{field.name}.{inner.name}" for inner in field.message_type.fields}
        else:
            found.add(field.name)
    return found


@pytest.mark.parametrize("answer_class", [hook.PodSandboxHookResponse, hook.ContainerResourceHookResponse])
def test_table_has_every_field_of_the_answers(answer_class: Any) -> None:
    """A field added to the protocol needs a row, or plugins would set it without effect."""
    assert set(fields_of(answer_class())) == named(answer_class())


@pytest.mark.parametrize("request_class", [hook.PodSandboxHookRequest, hook.ContainerResourceHookRequest])
def test_request_has_every_field_of_its_answer(request_class: Any) -> None:
    """A change is the difference to the field of the same name in the request."""
    assert set(fields_of(request_class())) <= named(request_class())


def test_rows_with_keys_are_read_as_such() -> None:
    """Only fields of resources can be cleared by being left out, and those with keys only key by key."""
    for field in FIELDS.values():
        assert (field.absence is Absence.KEYED) == (field.kind.is_keyed and bool(field.owner))
        assert (field.absence is Absence.NOTHING) == (not field.owner)


def test_every_row_is_documented() -> None:
    """Plugin authors find each field on the page about answers."""
    page = PAGE.read_text()
    assert [field.path for field in FIELDS.values() if f"`{field.name}`" not in page] == []


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("labels", ("labels", None)),
        ("resources.cpu_quota", ("resources.cpu_quota", None)),
        ("annotations[a.b/c]", ("annotations", "a.b/c")),
        ("annotations[a[0]]", ("annotations", "a[0]")),
        ("annotations[]x[]", ("annotations", "]x[")),
        ("labels[]", ("labels", "")),
    ],
)
def test_split(path: str, parts: tuple[str, str | None]) -> None:
    """The key is everything between the first and the final bracket."""
    assert split_path(path) == parts


@pytest.mark.parametrize("path", ["labels[", "labels[a", "labels[a]b"])
def test_split_of_an_open_bracket(path: str) -> None:
    """A path that does not end where its key ends names nothing."""
    with pytest.raises(ValueError, match="not closed"):
        split_path(path)


def test_path_of_is_the_reverse_of_split() -> None:
    """Whatever is in a key."""
    for key in ("a", "", "]", "[x]", "a.b[0]/c"):
        assert split_path(FIELDS["labels"].path_of(key)) == ("labels", key)
    assert split_path(FIELDS["resources.cpu_quota"].path_of(None)) == ("resources.cpu_quota", None)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("cpu_period", [1, 100_000], [-1]),
        ("cpu_quota", [-1, 1000], [-2]),
        ("cpu_shares", [2, 262144], [-1]),
        ("memory_limit_in_bytes", [-1, 1 << 40], [-2]),
        ("oom_score_adj", [-1000, 1000], [-1001, 1001]),
        ("memory_swap_limit_in_bytes", [-1, 1 << 40], [-2]),
        ("cpuset_cpus", ["0", "0-3,8", "5,2-2"], ["all", "0-", "3-0", "0,,1", " 0", "0\n", "0-7:2/4", "١", "9" * 7]),
        ("cpuset_mems", ["0-1"], ["0;1"]),
    ],
)
def test_limits_of_resources(name: str, good: list[Any], bad: list[Any]) -> None:
    """Values a kernel could take pass, others do not."""
    check = FIELDS[f"resources.{name}"].check
    assert [value for value in good if check(None, value) is not None] == []
    assert [value for value in bad if check(None, value) is None] == []


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("resources.hugepage_limits", ["2MB", "1GB", "64KB"], ["", "2", "2mb", "../2MB", "2MB\n"]),
        ("resources.unified", ["memory.high", "io.max"], ["", ".", "..", "../x", "a/b", "a\0"]),
        ("container_envs", ["PATH", "a.b-c", "ä"], ["", "A=B", "A\0"]),
        ("labels", ["", "a/b"], []),
    ],
)
def test_limits_of_keys(path: str, good: list[str], bad: list[str]) -> None:
    """Keys of which a runtime would make a path, or which no variable can have, do not pass."""
    field = FIELDS[path]
    value: Any = 1 if field.kind is HookFieldKind.PAGES else "1"
    assert [key for key in good if field.check(key, value) is not None] == []
    assert [key for key in bad if field.check(key, value) is None] == []


@pytest.mark.parametrize("path", ["container_envs", "resources.unified"])
def test_a_nul_in_a_value(path: str) -> None:
    """Neither an environment nor a file of the kernel can hold one."""
    assert FIELDS[path].check("A", "x\0y") == "holds a NUL"


def test_limits_of_a_cgroup_parent() -> None:
    """Paths and names of slices pass; nothing that climbs or breaks a line."""
    check = FIELDS["cgroup_parent"].check
    good = ["/kubepods/pod1", "kubepods-besteffort.slice", "/a..b", "user\\x2dslice"]
    bad = ["../x", "/a/../b", "..", "a\nb", "a\0b"]
    assert [value for value in good if check(None, value) is not None] == []
    assert [value for value in bad if check(None, value) is None] == []
