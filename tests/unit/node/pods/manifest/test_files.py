"""Manifests of files and folders, also while they are edited."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from interpose.node.pods.manifest.cache import AcceptedManifests, ManifestCache, accept_manifests
from interpose.node.pods.manifest.files import ManifestSnapshot, ManifestSources, ManifestWatcher
from interpose.testing.eventually import eventually


def manifest(name: str, **more: object) -> str:
    """A pod."""
    containers = [{"name": "main", "image": "busybox"}]
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **more}}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two manifests and other files."""
    (tmp_path / "a.yaml").write_text(manifest("a"))
    (tmp_path / "b.json").write_text(manifest("b"))
    for name in (".hidden.yaml", "a.yaml~", "notes.txt", ".a.yaml.swp"):
        (tmp_path / name).write_text(manifest("other"))
    return tmp_path


def names(wanted: ManifestSnapshot) -> list[str]:
    """The pods."""
    return [pod.name for pod in wanted.pods]


def test_a_folder_gives_the_pods_of_its_manifests(folder: Path) -> None:
    """Hidden files and those of editors are left out."""
    wanted = ManifestSources([str(folder)]).read()
    assert names(wanted) == ["a", "b"]
    assert wanted.problems == {}
    assert wanted.pods[0].source == str(folder / "a.yaml")


def test_files_can_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to where we are, too."""
    monkeypatch.chdir(folder)
    assert names(ManifestSources(["b.json", "notes.txt"]).read()) == ["b", "other"]


def test_a_broken_file_keeps_its_last_good_pods(folder: Path) -> None:
    """What is wrong is told with file and line; the others are read."""
    sources = ManifestSources([str(folder)], settling=0)
    sources.read()
    (folder / "a.yaml").write_text("kind: [")
    (folder / "b.json").write_text(manifest("b2"))
    wanted = sources.read()
    assert names(wanted) == ["a", "b2"]
    (problem,) = wanted.problems[str(folder / "a.yaml")]
    assert str(folder / "a.yaml") in problem
    assert "line 2" in problem


def test_a_file_that_was_never_good_gives_nothing(folder: Path) -> None:
    """The others do."""
    (folder / "c.yaml").write_text("kind: Pod")
    wanted = ManifestSources([str(folder)]).read()
    assert names(wanted) == ["a", "b"]
    assert list(wanted.problems) == [str(folder / "c.yaml")]


def test_a_file_that_is_gone_from_a_folder_wants_nothing(folder: Path) -> None:
    """Its pods leave."""
    sources = ManifestSources([str(folder)], settling=0)
    sources.read()
    (folder / "a.yaml").unlink()
    assert names(sources.read()) == ["b"]


def test_a_named_file_that_is_gone_is_a_problem(folder: Path) -> None:
    """It keeps its pods: who meant that ends the run."""
    sources = ManifestSources([str(folder / "a.yaml")])
    sources.read()
    (folder / "a.yaml").unlink()
    wanted = sources.read()
    assert names(wanted) == ["a"]
    assert wanted.problems


def test_a_folder_that_cannot_be_read_says_nothing_about_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods stay."""
    sources = ManifestSources([str(folder)])
    sources.read()

    def refuse(path: str) -> Iterator[object]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.scandir", refuse)
    wanted = sources.read()
    assert names(wanted) == ["a", "b"]
    assert "Permission denied" in wanted.problems[str(folder)][0]


@pytest.mark.parametrize("instead", ["nothing", "file", "dangling link"])
def test_a_folder_that_is_gone_ends_no_pods(tmp_path: Path, instead: str) -> None:
    """It may be just being replaced, or not be mounted. When it is back, it counts again."""
    folder, aside = tmp_path / "pods", tmp_path / "aside"
    folder.mkdir()
    (folder / "a.yaml").write_text(manifest("a"))
    sources = ManifestSources([str(folder)], settling=0)
    assert names(sources.read()) == ["a"]
    folder.rename(aside)
    if instead == "file":
        folder.write_text(manifest("b"))
    elif instead == "dangling link":
        folder.symlink_to(tmp_path / "nowhere")
    for _ in range(3):
        wanted = sources.read()
        assert names(wanted) == ["a"]
        (problem,) = wanted.problems[str(folder)]
        assert problem.startswith(f"folder {folder}: cannot be read: ")
        assert not sources.owns(str(folder / "a.yaml"))
    folder.unlink(missing_ok=True)
    aside.rename(folder)
    (folder / "a.yaml").unlink()
    wanted = sources.read()
    assert (names(wanted), wanted.problems) == ([], {})


def test_what_has_not_changed_is_not_judged_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at every other second; what is wrong with them is still known."""
    judged: list[int] = []

    def counted(texts: Mapping[str, str], before: AcceptedManifests) -> AcceptedManifests:
        judged.append(len(texts))
        return accept_manifests(texts, before)

    monkeypatch.setattr("interpose.node.pods.manifest.files.accept_manifests", counted)
    (folder / "c.yaml").write_text("kind: [")
    sources = ManifestSources([str(folder)], settling=0)
    first = sources.read()
    assert [sources.read() for _ in range(3)] == [first] * 3
    assert judged == [3]
    assert list(first.problems) == [str(folder / "c.yaml")]
    (folder / "c.yaml").write_text(manifest("c"))
    assert names(sources.read()) == ["a", "b", "c"]
    (folder / "c.yaml").unlink()
    assert names(sources.read()) == ["a", "b"]
    assert judged == [3, 3, 2]


def test_a_pod_that_is_given_twice_is_a_problem_of_the_second_file(folder: Path) -> None:
    """The first one counts, and goes on."""
    sources = ManifestSources([str(folder)])
    sources.read()
    (folder / "c.yaml").write_text(manifest("a"))
    wanted = sources.read()
    assert names(wanted) == ["a", "b"]
    assert list(wanted.problems) == [str(folder / "c.yaml")]


def test_who_owns_a_file(folder: Path) -> None:
    """It is named, or in a named folder, not deeper."""
    sources = ManifestSources([str(folder), "/x/y.yaml"])
    assert sources.owns(str(folder / "gone.yaml"))
    assert sources.owns("/x/y.yaml")
    assert not sources.owns("/x/z.yaml")
    assert not sources.owns(str(folder / "deeper" / "a.yaml"))
    assert sources.folders() == [str(folder), "/x"]


def test_a_new_file_takes_nothing_from_another(folder: Path) -> None:
    """Wherever it sorts: who was there first keeps the pod, and the others of the same file."""
    (folder / "b.json").write_text("\n---\n".join(map(manifest, ("b", "c", "d"))))
    sources = ManifestSources([str(folder)], settling=0)
    sources.read()
    (folder / "0.yaml").write_text(manifest("b", hostname="other"))
    wanted = sources.read()
    assert names(wanted) == ["a", "b", "c", "d"]
    assert list(wanted.problems) == [str(folder / "0.yaml")]
    (folder / "b.json").unlink()
    assert names(sources.read()) == ["b", "a"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n---\n"])
def test_an_empty_file_keeps_its_pods(folder: Path, text: str) -> None:
    """It is being written, or the disk is full; who wants its pods to end removes it."""
    sources = ManifestSources([str(folder)], settling=0)
    sources.read()
    (folder / "a.yaml").write_text(text)
    wanted = sources.read()
    assert names(wanted) == ["a", "b"]
    assert "holds nothing any more" in wanted.problems[str(folder / "a.yaml")][0]


def test_a_change_counts_when_it_stands(folder: Path) -> None:
    """A file that is written in place has its first half for a moment; one that is replaced is gone for one."""
    now = 0.0
    sources = ManifestSources([str(folder)], clock=lambda: now)
    (folder / "a.yaml").write_text(manifest("a") + "\n---\n" + manifest("a2"))
    sources.read()
    (folder / "a.yaml").write_text(manifest("a") + "\n---\n")
    (folder / "b.json").unlink()
    (folder / "new.json").write_text(manifest("new"))
    wanted = sources.read()
    assert (names(wanted), wanted.unsettled) == (["a", "a2", "new", "b"], True)
    now = 0.9
    (folder / "a.yaml").write_text(manifest("a") + "\n---\n" + manifest("a3"))
    assert sources.read().unsettled
    now = 1.5
    assert names(sources.read()) == ["a", "a2", "new"]
    now = 2.0
    wanted = sources.read()
    assert (names(wanted), wanted.unsettled) == (["a", "a3", "new"], False)


def test_a_file_that_others_made_wrong_keeps_its_pods(folder: Path) -> None:
    """The ConfigMap that it needs went."""
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "b"}}
    (folder / "conf.json").write_text(json.dumps(conf))
    uses = [{"name": "main", "image": "busybox", "envFrom": [{"configMapRef": {"name": "conf"}}]}]
    (folder / "a.yaml").write_text(manifest("a", containers=uses))
    sources = ManifestSources([str(folder)], settling=0)
    before = sources.read()
    (folder / "conf.json").unlink()
    wanted = sources.read()
    assert wanted.pods == before.pods
    assert list(wanted.problems) == [str(folder / "a.yaml")]


def test_pods_of_a_file_that_is_wrong_are_nobodys_to_remove(folder: Path) -> None:
    """Only of a file that was read it is known which pods it does not want."""
    sources = ManifestSources([str(folder)])
    (folder / "a.yaml").write_text("kind: [")
    sources.read()
    assert not sources.owns(str(folder / "a.yaml"))
    assert sources.owns(str(folder / "b.json"))


def test_what_a_broken_file_said_is_known_after_a_restart(folder: Path) -> None:
    """Also who was there first."""
    kept = str(folder / "root" / "manifests")
    before = ManifestSources([str(folder)], memory=ManifestCache(kept)).read()
    (folder / "a.yaml").write_text("kind: [")
    (folder / "0.yaml").write_text(manifest("b"))
    wanted = ManifestSources([str(folder)], memory=ManifestCache(kept)).read()
    assert wanted.pods == before.pods
    assert list(wanted.problems) == [str(folder / "0.yaml"), str(folder / "a.yaml")]


async def test_edits_are_followed_and_problems_told_once(folder: Path) -> None:
    """A hand-over for each change, none without one."""
    heard: list[ManifestSnapshot] = []
    problems: list[str] = []
    watch = ManifestWatcher(ManifestSources([str(folder)], settling=0.01), heard.append, problems.append)
    watch.start()
    await eventually(lambda: heard, "the first hand-over")
    (folder / "c.yaml").write_text(manifest("c"))
    await eventually(lambda: names(heard[-1]) == ["a", "b", "c"], "the new pod")
    (folder / "c.yaml").write_text("kind: [")
    await eventually(lambda: problems, "the problem")
    (folder / "b.json").unlink()
    await eventually(lambda: names(heard[-1]) == ["a", "c"], "the pod to leave")
    assert len(problems) == 1
    await watch.close()


async def test_problems_are_in_the_log_if_nobody_else_hears(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With everything one needs to find them."""
    (folder / "c.yaml").write_text("kind: [")
    watch = ManifestWatcher(ManifestSources([str(folder)]), lambda _wanted: None)
    watch.start()
    await eventually(lambda: caplog.records, "the problem")
    assert "c.yaml" in caplog.records[0].__dict__["kv"]["problem"]
    await watch.close()


async def test_a_failure_that_nobody_thought_of_does_not_end_the_watching(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once, pods stay as they are, and later changes are followed."""
    heard: list[ManifestSnapshot] = []
    sources = ManifestSources([str(folder)], settling=0.01)
    read, failures = sources.read, [ZeroDivisionError] * 3

    def failing() -> ManifestSnapshot:
        if heard and failures:
            raise failures.pop()
        return read()

    monkeypatch.setattr(sources, "read", failing)
    watch = ManifestWatcher(sources, heard.append)
    watch.start()
    await eventually(lambda: heard, "the first hand-over")
    for name in ("c", "d", "e", "f"):
        (folder / f"{name}.yaml").write_text(manifest(name))
        await eventually(lambda: caplog.records, "the failure")
    await eventually(lambda: names(heard[-1]) == ["a", "b", "c", "d", "e", "f"], "the new pods")
    assert [record.message for record in caplog.records] == [
        "Failed to read manifests, keeping their last valid version"
    ]
    await watch.close()
