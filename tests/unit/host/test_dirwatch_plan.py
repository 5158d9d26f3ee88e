"""Which directories a path depends on."""

from pathlib import Path

import pytest

from interpose.host.dirwatch import watch_plan


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder whose own path has no links."""
    return tmp_path.resolve()


def names(base: Path, directory: Path) -> dict[str, set[str]]:
    """The plan below `base`: what matters where, `*` for everything."""
    plan = watch_plan(str(directory))
    return {
        str(Path(path).relative_to(base)): {"*"} if interest.contents else interest.names
        for path, interest in plan.items()
        if Path(path).is_relative_to(base)
    }


def test_a_directory_depends_on_itself_and_all_above(base: Path) -> None:
    """From the root down, so that nothing can be swapped between two watches."""
    hooks = base / "a/hooks.d"
    hooks.mkdir(parents=True)
    assert names(base, hooks) == {".": {"a"}, "a": {"hooks.d"}, "a/hooks.d": {"*"}}
    plan = list(watch_plan(str(hooks)))
    assert plan == sorted(plan, key=len)
    assert plan[0] == "/"


@pytest.mark.parametrize("there", ["nothing", "file", "dangling", "loop"])
def test_what_does_not_lead_to_a_directory_waits_at_the_last_one(base: Path, there: str) -> None:
    """The nearest directory that exists will tell."""
    path = base / "hooks.d"
    match there:
        case "file":
            path.touch()
        case "dangling":
            path.symlink_to("elsewhere")
        case "loop":
            path.symlink_to("hooks.d")
    expected = {"hooks.d", "elsewhere"} if there == "dangling" else {"hooks.d"}
    assert names(base, path) == {".": expected}
    assert names(base, path / "below/it") == {".": expected}


def test_a_linked_directory_depends_on_both_ways(base: Path) -> None:
    """The link may be swapped, and so may be what it leads through."""
    (base / "real/v1").mkdir(parents=True)
    (base / "real/now").symlink_to("v1")
    (base / "etc").mkdir()
    (base / "etc/hooks.d").symlink_to("../real/now")
    assert names(base, base / "etc/hooks.d") == {
        ".": {"etc", "real"},
        "etc": {"hooks.d"},
        "real": {"now", "v1"},
        "real/v1": {"*"},
    }


def test_links_to_files_are_followed_to_their_folder(base: Path) -> None:
    """A ConfigMap's files inside, a package's file elsewhere; writing to those matters too."""
    hooks = base / "hooks.d"
    (hooks / "..v1").mkdir(parents=True)
    (hooks / "..v1/a.json").touch()
    (hooks / "..data").symlink_to("..v1")
    (hooks / "a.json").symlink_to("..data/a.json")
    (base / "opt").mkdir()
    (base / "opt/b.json").touch()
    (hooks / "b.json").symlink_to(base / "opt/b.json")
    assert names(base, hooks) == {
        ".": {"hooks.d", "opt"},
        "hooks.d": {"*"},
        "hooks.d/..v1": {"a.json"},
        "opt": {"b.json"},
    }
    edits = {path for path, interest in watch_plan(str(hooks)).items() if interest.edits}
    assert edits == {str(hooks), str(hooks / "..v1"), str(base / "opt")}


def test_the_plan_is_the_same_twice(base: Path) -> None:
    """It is compared with the one before to know whether something moved."""
    (base / "a").symlink_to("b")
    assert watch_plan(str(base)) == watch_plan(str(base))
