"""`interpose image`: images of our own runtime. Works beside a running daemon, and without one."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from interpose.cli.image.progress import ProgressLines
from interpose.cli.render.text import WIDTH, amount, flat, or_dash, table
from interpose.core.model.humanize import format_size
from interpose.errors import ConfigError

if TYPE_CHECKING:
    from interpose.node.runtime.images.registry.endpoints import Registries
    from interpose.node.runtime.images.store import LocalImageStore
    from interpose.node.runtime.images.types import Auth, StoredImage

_T = TypeVar("_T")
ROOT = "/var/lib/interpose/runtime"
_SHOWN_ID = 12
_MOST_FILE = 1 << 20

root_option = click.option(
    "--root",
    metavar="DIR",
    default=ROOT,
    show_default=True,
    envvar="INTERPOSE_RUNTIME_ROOT",
    help="Where `interpose runtime` keeps what lasts. [env: INTERPOSE_RUNTIME_ROOT]",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people or programs.",
)


@click.group("image")
def image() -> None:
    """Bring images to our own runtime, name, list, save and remove them.

    \b
    Without a registry:
      docker save busybox:latest | gzip > busybox.tar.gz
      interpose image import busybox.tar.gz
    From one:
      interpose image pull registry.example/team/app:1.2
    """


@image.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--name",
    default="",
    metavar="REF",
    help="What to call the image, besides the names in its file. Of several images: the repository for their tags.",
)
@root_option
@output_option
def import_command(files: tuple[str, ...], name: str, root: str, output: str) -> None:
    """Bring images from files.

    FILE is what `docker save` writes, an OCI archive, or the folder of an OCI layout; archives may be compressed with
    gzip, with zstd from Python 3.14 on.
    """

    async def work(store: "LocalImageStore") -> "list[StoredImage]":
        found: list[str] = []
        with ProgressLines(sys.stderr) as progress:
            for file in files:
                found += [image.id for image in await store.import_file(Path(file), name, progress.on_progress)]
        # As they are now: several files may hold one image, and a later one may take a name from another.
        stored = {image.id: image for image in await store.list()}
        return [stored[image_id] for image_id in dict.fromkeys(found) if image_id in stored]

    _show(_run(root, work), output)


@image.command("pull")
@click.argument("reference", metavar="REF")
@click.option("--username", metavar="NAME", default="", help="Who asks; the password comes with --password-stdin.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@click.option(
    "--docker-config",
    metavar="FILE",
    default="",
    help="Credentials as `docker login` writes them. [default: $DOCKER_CONFIG/config.json or ~/.docker/config.json]",
)
@click.option("--registries", metavar="FILE", default="", help="Mirrors, certificates and addresses of registries.")
@root_option
@output_option
def pull_command(
    reference: str, username: str, password_stdin: bool, docker_config: str, registries: str, root: str, output: str
) -> None:
    """Bring an image from its registry.

    REF is a name such as busybox, team/app:1.2 or host:5000/app@sha256:...
    """
    if bool(username) != password_stdin:
        raise click.UsageError("--username and --password-stdin go together")
    auth = _read_login(username) if username else _find_login(docker_config, reference)

    async def work(store: "LocalImageStore") -> "list[StoredImage]":
        with ProgressLines(sys.stderr) as progress:
            return [await store.pull(reference, auth, progress.on_progress)]

    _show(_run(root, work, _registries(registries)), output)


@image.command("ls")
@root_option
@output_option
def ls_command(root: str, output: str) -> None:
    """List the images that are there."""

    async def work(store: "LocalImageStore") -> "list[StoredImage]":
        return await store.list()

    _show(_run(root, work, sweep=False), output)


@image.command("tag")
@click.argument("reference", metavar="REF")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@root_option
@output_option
def tag_command(reference: str, names: tuple[str, ...], root: str, output: str) -> None:
    """Give an image more names.

    REF is a name or an id. A NAME that another image has moves to this one.
    """

    async def work(store: "LocalImageStore") -> "list[StoredImage]":
        tagged = await store.tag(reference, names)
        if tagged is None:
            raise _not_found(reference)
        return [tagged]

    _show(_run(root, work, sweep=False), output)


@image.command("inspect")
@click.argument("references", nargs=-1, required=True, metavar="REF...")
@root_option
def inspect_command(references: tuple[str, ...], root: str) -> int:
    """Show all that is known about images, as JSON.

    The keys are those of `docker image inspect`; Containers and Layers are of our store.
    """

    async def work(store: "LocalImageStore") -> int:
        from interpose.node.runtime.images.inspection import inspect_document

        found = {reference: await store.get(reference) for reference in references}
        used = await asyncio.to_thread(store.holds)
        known = {image.id: image for image in found.values() if image is not None}
        documents = []
        for image in known.values():
            config = await asyncio.to_thread(store.config_data, image)
            containers = sorted(name for name, image_id in used.items() if image_id == image.id)
            documents.append(inspect_document(image, config, store.layers(image), containers))
        click.echo(json.dumps(documents, indent=2))
        for reference in [name for name, image in found.items() if image is None]:
            click.echo(f"error: {_not_found(reference).message}", err=True)
        return 0 if all(found.values()) else 1

    return _run(root, work, sweep=False)


@image.command("save")
@click.argument("references", nargs=-1, required=True, metavar="REF...")
@click.option(
    "-o", "--output", "file", metavar="FILE", default="-", help="Where to write it. [default: standard output]"
)
@root_option
def save_command(references: tuple[str, ...], file: str, root: str) -> None:
    """Write images to an archive that docker, containerd, podman and `interpose image import` can read.

    \b
      interpose image save busybox:1.36 -o busybox.tar
      docker load -i busybox.tar
      ctr -n k8s.io images import busybox.tar

    REF is a name or an id. An image that is asked for by its id has no name in the archive, as with `docker save`.
    """
    if file == "-" and sys.stdout.isatty():
        raise click.UsageError("an archive is not written to a terminal: use -o FILE, or a pipe")

    async def work(store: "LocalImageStore") -> None:
        with whole_file(file) as target:
            saved = await store.save(references, target)
        for written in saved:
            click.echo(f"Saved {or_dash(', '.join(written.tags) or written.id)}, {format_size(written.size)}", err=True)
            if written.id != written.was:
                click.echo(f"  its layers were packed anew, so its id there is {written.id}", err=True)

    _run(root, work, sweep=False)


@contextmanager
def whole_file(name: str) -> "Iterator[IO[bytes]]":
    """A file that exists once it is complete, or not at all; - is standard output."""
    if name == "-":
        with _name_path_in_errors("standard output"):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    path = Path(name)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _name_path_in_errors(name, str(unfinished)):
            with unfinished.open("xb") as target:
                yield target
            unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink()


@contextmanager
def _name_path_in_errors(name: str, temporary: str | None = None) -> "Iterator[None]":
    """OSErrors inside name the file of the user: a full disk names none, and the temporary file is ours."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, error.strerror, name) from error


@image.command("rm")
@click.argument("references", nargs=-1, required=True, metavar="REF...")
@root_option
def rm_command(references: tuple[str, ...], root: str) -> int:
    """Remove images by name or id.

    Of an image with several names one is removed, and with the last one, or by its id, the image. Files of containers
    stay: what a container was made of is removed when the container is.
    """

    async def work(store: "LocalImageStore") -> int:
        code = 0
        for reference in references:
            if await store.untag(reference):
                click.echo(f"Removed {or_dash(reference)}")
            else:
                click.echo(f"error: {_not_found(reference).message}", err=True)
                code = 1
        return code

    return _run(root, work)


@image.command("prune")
@click.option("--all", "everything", is_flag=True, help="Also images with a name that no container was made of.")
@root_option
def prune_command(everything: bool, root: str) -> None:
    """Remove images that nobody needs: those without a name that no container was made of.

    A name moves when another image is brought with it; the one before stays without one.
    """

    async def work(store: "LocalImageStore") -> "list[StoredImage]":
        used = set((await asyncio.to_thread(store.holds)).values())
        found = await store.list()
        unused = [
            image
            for image in found
            if (everything or not image.repo_tags) and not image.pinned and image.id not in used
        ]
        return [image for image in unused if await store.remove(image.id)]

    _show_removed(_run(root, work, sweep=False))


def _not_found(reference: str) -> click.ClickException:
    return click.ClickException(f"image {or_dash(reference)}: not found")


def _show_removed(images: "list[StoredImage]") -> None:
    for image in images:
        names = image.repo_tags or image.repo_digests
        click.echo(f"Removed {or_dash(', '.join(names) or image.id)}")
    # Layers that other images have, too, stay.
    click.echo(f"{amount(len(images), 'image')} removed, up to {format_size(sum(image.size for image in images))}")


def _run(
    root: str,
    work: "Callable[[LocalImageStore], Awaitable[_T]]",
    registries: "Registries | None" = None,
    *,
    sweep: bool = True,
) -> _T:
    from interpose.log import setup
    from interpose.node.runtime.images.store import LocalImageStore
    from interpose.node.runtime.images.types import PullError

    folder = Path(root) / "images"

    async def run() -> _T:
        store = LocalImageStore(folder, registries=registries)
        try:
            await asyncio.to_thread(store.load)
            return await work(store)
        finally:
            await store.close()

    if not sweep and not folder.is_dir():
        raise click.ClickException(f"--root {root}: there are no images: {folder} is not there")
    logs = setup("warning", "text")
    try:
        return asyncio.run(run())
    except (PullError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # as a shell reports it
    finally:
        logs.close()


def _read_login(username: str) -> "Auth":
    from interpose.node.runtime.images.types import Auth

    return Auth(username=username, password=sys.stdin.readline().rstrip("\r\n"))


def _find_login(docker_config: str, reference: str) -> "Auth | None":
    from interpose.config.documents.yaml import read_text
    from interpose.node.runtime.images.registry.docker_config import credentials
    from interpose.node.runtime.images.registry.reference import parse_reference

    usual = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    path = docker_config or (str(usual) if usual.is_file() else "")
    if not path:
        return None
    try:
        image = parse_reference(reference)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        return credentials(read_text(path, _MOST_FILE), f"file {path}", image)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def read_registries_file(path: Path | str) -> "Registries":
    """The settings of registries in a YAML or JSON file. Raises ConfigError with all problems."""
    from interpose.config.documents.yaml import read_document
    from interpose.node.runtime.images.registry.endpoints import read_registries

    return read_registries(read_document(str(path)), f"file {path}")


def _registries(path: str) -> "Registries | None":
    return read_registries_file(path) if path else None


def _show(images: "list[StoredImage]", output: str) -> None:
    if output == "json":
        click.echo(json.dumps([_document(image) for image in images], indent=2))
        return
    if not images:
        click.echo("No images.")
        return
    rows = [["NAME", "ID", "SIZE"]]
    for image in images:
        short = image.id.removeprefix("sha256:")[:_SHOWN_ID]
        rows += [
            [or_dash(name), short, format_size(image.size)]
            for name in image.repo_tags or image.repo_digests or ("<none>",)
        ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    click.echo("\n".join(flat(table(rows, width=width))))


def _document(image: "StoredImage") -> dict[str, Any]:
    return {
        "id": image.id,
        "tags": list(image.repo_tags),
        "digests": list(image.repo_digests),
        "size": image.size,
        "layers": len(image.chain),
        "user": image.config.user,
        "entrypoint": list(image.config.entrypoint),
        "cmd": list(image.config.cmd),
        "workingDir": image.config.working_dir,
        "created": image.config.created,
        "pinned": image.pinned,
    }
