"""`interpose image` brings, lists and removes images, with and without a daemon."""

import asyncio
import errno
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.image.command import image
from interpose.cli.main import cli
from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.store import LocalImageStore
from tests.support.node.image_files import docker_archive, layer, make_image

IMAGE = make_image([layer({"a": "1"})], user="1000", cmd=["sh"], architecture="amd64")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the runtime keeps what lasts."""
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's own credentials are read."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("NO_PROXY", "*")


def run(*arguments: object, text: str = "") -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["image", *map(str, arguments)], input=text)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with an image."""
    path = tmp_path / "x.tar"
    path.write_bytes(docker_archive({"x:1": IMAGE}))
    return path


def test_an_imported_image_is_listed(root: Path, archive: Path) -> None:
    """As a table; progress is not on standard output."""
    result = run("import", archive, "--root", root)
    size = len(IMAGE.config) + len(IMAGE.layers[0])
    header = "NAME                   ID            SIZE"
    assert result.exit_code == 0
    assert result.stdout == f"{header}\ndocker.io/library/x:1  {IMAGE.id[7:19]}  {size} B\n"
    assert "done" in result.stderr
    assert run("ls", "--root", root).stdout == result.stdout


def test_an_image_that_cannot_be_used_is_named_with_the_reason(
    root: Path, archive: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever looks for it should not have to guess."""
    run("import", archive, "--root", root)
    (config,) = (root / "images/configs").iterdir()
    config.write_text("x")
    assert run("ls", "--root", root).stdout == "No images.\n"
    said = capfd.readouterr().err
    assert IMAGE.id in said
    assert "it is not JSON" in said


def test_programs_get_a_document(root: Path, archive: Path) -> None:
    """With all that is known."""
    run("import", archive, "--root", root)
    (found,) = json.loads(run("ls", "--root", root, "-o", "json").stdout)
    assert (found["id"], found["tags"], found["layers"]) == (IMAGE.id, ["docker.io/library/x:1"], 1)
    assert (found["user"], found["cmd"]) == ("1000", ["sh"])


def test_an_image_without_a_name_gets_one(root: Path, tmp_path: Path) -> None:
    """Or has none."""
    path = tmp_path / "y.tar"
    path.write_bytes(docker_archive({"": IMAGE}))
    assert "<none>" in run("import", path, "--root", root).stdout
    assert "docker.io/library/y:2" in run("import", path, "--name", "y:2", "--root", root).stdout


def test_an_image_of_several_files_is_listed_once(root: Path, archive: Path, tmp_path: Path) -> None:
    """With all the names that it has in the end."""
    other = tmp_path / "other.tar"
    other.write_bytes(docker_archive({"": IMAGE}))
    (found,) = json.loads(run("import", archive, other, "--name", "y:2", "--root", root, "-o", "json").stdout)
    assert (found["id"], sorted(found["tags"])) == (IMAGE.id, ["docker.io/library/x:1", "docker.io/library/y:2"])
    assert len(run("import", other, other, "--name", "y:2", "--root", root).stdout.splitlines()) == 3


def test_a_name_that_a_later_file_takes_is_listed_once(root: Path, archive: Path, tmp_path: Path) -> None:
    """The image before it has none any more."""
    other = make_image([layer({"b": "2"})], architecture="amd64")
    later = tmp_path / "later.tar"
    later.write_bytes(docker_archive({"x:1": other}))
    found = json.loads(run("import", archive, later, "--root", root, "-o", "json").stdout)
    assert [(one["id"], one["tags"]) for one in found] == [(IMAGE.id, []), (other.id, ["docker.io/library/x:1"])]


def test_images_are_removed_by_name(root: Path, archive: Path) -> None:
    """One that is not there is an error, and the others are removed all the same."""
    run("import", archive, "--root", root)
    result = run("rm", "none", "x:1", "--root", root)
    assert (result.exit_code, result.stdout) == (1, "Removed x:1\n")
    assert "image none: not found" in result.stderr
    assert run("ls", "--root", root).stdout == "No images.\n"
    assert run("rm", "A b", "--root", root).exit_code == 1


def test_images_that_nobody_needs_are_removed(root: Path, archive: Path, tmp_path: Path) -> None:
    """Those that lost their name; with --all those that no container was made of."""
    run("import", archive, "--root", root)
    other = make_image([layer({"b": "2"})], architecture="amd64")
    archive.write_bytes(docker_archive({"x:1": other, "y:1": make_image([layer({"c": "3"})], architecture="amd64")}))
    run("import", archive, "--root", root)
    assert run("prune", "--root", root).stdout.splitlines()[0] == f"Removed {IMAGE.id}"
    assert run("prune", "--root", root).stdout == "0 images removed, up to 0 B\n"
    asyncio.run(_hold(root, "x:1"))
    assert run("prune", "--all", "--root", root).stdout.splitlines()[0] == "Removed docker.io/library/y:1"
    assert [one["id"] for one in json.loads(run("ls", "--root", root, "-o", "json").stdout)] == [other.id]
    assert run("prune", "--root", tmp_path / "none").exit_code == 1


async def _hold(root: Path, name: str) -> None:
    store = LocalImageStore(root / "images")
    store.load()
    image = await store.get(name)
    assert image is not None
    await store.hold("container", image)
    await store.close()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"no archive", "it is not a whole tar file"), (docker_archive({}), "it has no image in it")],
)
def test_what_cannot_be_imported_is_an_error(content: bytes, problem: str, root: Path, tmp_path: Path) -> None:
    """Which names the file."""
    (tmp_path / "bad").write_bytes(content)
    result = run("import", tmp_path / "bad", "--root", root)
    assert result.exit_code == 1
    assert f"{tmp_path}/bad: {problem}" in result.stderr


def test_a_file_that_is_not_there_is_an_error(root: Path, tmp_path: Path) -> None:
    """And so is a store that is not."""
    assert run("import", tmp_path / "none", "--root", root).exit_code == 1
    result = run("ls", "--root", tmp_path / "nowhere")
    assert result.exit_code == 1
    assert "there are no images" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_wrong_settings_of_registries_are_refused(root: Path, tmp_path: Path) -> None:
    """With file, line and key."""
    settings = tmp_path / "registries.yaml"
    settings.write_text("registries:\n  x.io: {endpoints: ['ftp://x']}\n")
    result = run("pull", "x.io/app", "--root", root, "--registries", settings)
    assert result.exit_code == 78
    assert f"file {settings} line 2: registries.x.io.endpoints[0]" in result.stderr


def test_names_and_flags_are_checked_first(root: Path) -> None:
    """Wrong usage is not a failure."""
    assert run("pull", "x", "--username", "me", "--root", root).exit_code == 2
    assert run("pull", "x", "--password-stdin", "--root", root).exit_code == 2
    assert run("import", "--root", root).exit_code == 2
    result = run("pull", "A b", "--root", root)
    assert result.exit_code == 1
    assert "image reference 'A b'" in result.stderr


def test_credentials_of_docker_are_checked(root: Path, tmp_path: Path) -> None:
    """The usual file, or the one that is named; errors name it."""
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text("{")
    result = run("pull", "x.io/app", "--root", root)
    assert (result.exit_code, "docker/config.json: it is not JSON" in result.stderr) == (78, True)
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"auths": {"x.io": {"auth": 5}}}))
    result = run("pull", "x.io/app", "--root", root, "--docker-config", other)
    assert (result.exit_code, "other.json: key auths.x.io.auth" in result.stderr) == (78, True)
    assert run("pull", "A b", "--root", root, "--docker-config", other).exit_code == 2


def test_help_says_how_to_begin() -> None:
    """Without loading a store."""
    text = run("--help").output
    assert "docker save" in text
    assert list(image.commands) == ["import", "pull", "ls", "tag", "inspect", "save", "rm", "prune"]


def test_an_image_gets_more_names(root: Path, archive: Path) -> None:
    """One that is not there is an error."""
    run("import", archive, "--root", root)
    assert "docker.io/library/y:2" in run("tag", "x:1", "y:2", "--root", root).stdout
    assert json.loads(run("ls", "--root", root, "-o", "json").stdout)[0]["tags"] == [
        "docker.io/library/x:1",
        "docker.io/library/y:2",
    ]
    result = run("tag", "none", "y:2", "--root", root)
    assert (result.exit_code, result.stderr) == (1, "error: image none: not found\n")
    assert "image reference 'A b'" in run("tag", "x:1", "A b", "--root", root).stderr


def test_images_are_inspected(root: Path, archive: Path) -> None:
    """Each once, by any of its names; those that are not there are named."""
    run("import", archive, "--root", root)
    result = run("inspect", "x:1", IMAGE.id, "none", "--root", root)
    assert (result.exit_code, result.stderr) == (1, "error: image none: not found\n")
    (found,) = json.loads(result.stdout)
    assert (found["Id"], found["Config"]["User"], found["Containers"]) == (IMAGE.id, "1000", [])
    assert Path(found["Layers"][0], "a").read_text() == "1"
    assert run("inspect", "x:1", "--root", root).exit_code == 0


def test_a_name_is_given_beside_that_of_the_file(root: Path, archive: Path) -> None:
    """Both count."""
    (found,) = json.loads(run("import", archive, "--name", "y:2", "--root", root, "-o", "json").stdout)
    assert found["tags"] == ["docker.io/library/x:1", "docker.io/library/y:2"]


def test_no_room_is_told_with_place_and_bytes(root: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is unpacked."""
    monkeypatch.setattr(ImageDisk, "free", lambda _self: 1)
    result = run("import", archive, "--root", root)
    needed = len(IMAGE.layers[0])
    assert (result.exit_code, result.stderr) == (
        1,
        f"error: {root}/images: not enough space: {needed} bytes are needed and 1 are free\n",
    )


def test_saved_images_can_be_imported(root: Path, archive: Path, tmp_path: Path) -> None:
    """With the same id, under the name they were asked for by; by its id without one."""
    run("import", archive, "--name", "y:2", "--root", root)
    for reference, tags in (("x:1", ["docker.io/library/x:1"]), (IMAGE.id, [])):
        file, other = tmp_path / "saved.tar", tmp_path / f"other{len(tags)}"
        result = run("save", reference, "-o", file, "--root", root)
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"Saved {(tags or [IMAGE.id])[0]}, " in result.stderr
        (found,) = json.loads(run("import", file, "--root", other, "-o", "json").stdout)
        assert (found["id"], found["tags"]) == (IMAGE.id, tags)
    assert not list(tmp_path.glob(".*"))


def test_an_archive_goes_to_standard_output(root: Path, archive: Path, tmp_path: Path) -> None:
    """So that it can be piped."""
    run("import", archive, "--root", root)
    result = run("save", "x:1", "--root", root)
    (tmp_path / "piped.tar").write_bytes(result.stdout_bytes)
    assert IMAGE.id in run("import", tmp_path / "piped.tar", "--root", tmp_path / "other", "-o", "json").stdout


def test_layers_of_older_stores_are_packed_anew(root: Path, archive: Path, tmp_path: Path) -> None:
    """Which is said, with the id that the image has then."""
    run("import", archive, "--root", root)
    (split,) = (root / "images/layers").glob("*/tar-split")
    split.unlink()
    result = run("save", "x:1", "-o", tmp_path / "saved.tar", "--root", root)
    (found,) = json.loads(run("import", tmp_path / "saved.tar", "--root", tmp_path / "other", "-o", "json").stdout)
    assert found["id"] != IMAGE.id
    assert f"its layers were packed anew, so its id there is {found['id']}" in result.stderr


def test_what_cannot_be_saved_leaves_no_file(root: Path, archive: Path, tmp_path: Path) -> None:
    """An older file of that name stays as it was."""
    run("import", archive, "--root", root)
    file = tmp_path / "saved.tar"
    file.write_text("before")
    result = run("save", "x:1", "none", "-o", file, "--root", root)
    assert (result.exit_code, result.stderr) == (1, "error: image none: not found\n")
    assert file.read_text() == "before"
    assert not list(tmp_path.glob(".*"))
    result = run("save", "x:1", "-o", tmp_path / "no/such", "--root", root)
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path}/no/such: No such file or directory\n")


@pytest.mark.parametrize("to_file", [True, False])
def test_a_disk_that_is_full_is_told_with_the_file(
    root: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_file: bool
) -> None:
    """The one that was asked for: not the folder of the images, which has room."""

    async def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run("import", archive, "--root", root)
    monkeypatch.setattr(LocalImageStore, "save", full)
    file = tmp_path / "saved.tar"
    result = run("save", "x:1", *(["-o", file] if to_file else []), "--root", root)
    place = file if to_file else "standard output"
    assert (result.exit_code, result.stderr) == (1, f"error: {place}: No space left on device\n")


def test_errors_of_the_store_name_its_files(root: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads them while an archive is written."""

    async def unreadable(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/layers/1")

    run("import", archive, "--root", root)
    monkeypatch.setattr(LocalImageStore, "save", unreadable)
    assert run("save", "x:1", "--root", root).stderr == "error: /layers/1: Permission denied\n"
