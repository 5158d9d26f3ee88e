"""Options that all commands about pods share."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import click

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.core.model.label_selector import LabelSelector, parse_label_selector
from interpose.host.cgroup.paths import Driver

_F = TypeVar("_F", bound=Callable[..., Any])

ROOT: Final = "/var/lib/interpose"
LOG_ROOT: Final = "/var/log/pods"
STDIN: Final = "/dev/stdin"

_OPTIONS: Final = (
    click.option(
        "-r",
        "--runtime-endpoint",
        "--container-runtime-endpoint",
        "endpoint",
        metavar="SOCKET",
        envvar=["INTERPOSE_POD_RUNTIME_ENDPOINT", "CONTAINER_RUNTIME_ENDPOINT"],
        default=None,
        help=(
            "Socket of the runtime, /path or unix:///path. [default: that of a relay, of `interpose runtime`, or of a "
            "well-known runtime, whichever is there; env: INTERPOSE_POD_RUNTIME_ENDPOINT, CONTAINER_RUNTIME_ENDPOINT]"
        ),
    ),
    click.option(
        "--image-endpoint",
        "--image-service-endpoint",
        "image_endpoint",
        metavar="SOCKET",
        envvar=["INTERPOSE_POD_IMAGE_ENDPOINT", "IMAGE_SERVICE_ENDPOINT"],
        default=None,
        help="Socket for images, where it is another one. [env: INTERPOSE_POD_IMAGE_ENDPOINT, IMAGE_SERVICE_ENDPOINT]",
    ),
    click.option(
        "--local",
        is_flag=True,
        help=(
            "The built-in runtime, in this process. Its settings are those of `interpose runtime`, from the "
            "environment (INTERPOSE_RUNTIME_...) and the file that is named there."
        ),
    ),
    click.option(
        "--root",
        metavar="DIR",
        envvar="INTERPOSE_POD_ROOT",
        default=ROOT,
        show_default=True,
        help="Folder for volumes and notes of pods. [env: INTERPOSE_POD_ROOT]",
    ),
    click.option(
        "--log-root",
        metavar="DIR",
        envvar="INTERPOSE_POD_LOG_ROOT",
        default=LOG_ROOT,
        show_default=True,
        help="Folder for logs of containers. [env: INTERPOSE_POD_LOG_ROOT]",
    ),
    click.option(
        "--cgroup-mount",
        metavar="DIR",
        envvar="INTERPOSE_POD_CGROUP_MOUNT",
        default=CGROUP_ROOT,
        show_default=True,
        help=(
            "Where cgroups are mounted. Where there are none, pods have no limits as a whole. With --local the "
            "runtime's setting counts. [env: INTERPOSE_POD_CGROUP_MOUNT]"
        ),
    ),
    click.option(
        "--cgroup-driver",
        type=click.Choice(["auto", *(driver.value for driver in Driver)]),
        envvar="INTERPOSE_POD_CGROUP_DRIVER",
        default="auto",
        show_default=True,
        help=(
            "Who makes cgroups for the runtime: itself, or systemd. auto asks it; one that does not say is taken for "
            "cgroupfs. [env: INTERPOSE_POD_CGROUP_DRIVER]"
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How the runtime is reached and where the folders of pods are."""

    endpoint: str | None = None
    image_endpoint: str | None = None
    local: bool = False
    root: str = ROOT
    log_root: str = LOG_ROOT
    cgroup_mount: str = CGROUP_ROOT
    cgroup_driver: str = "auto"


def connection_options(command: _F) -> _F:
    """Add the options; `pop_connection_options` takes them out of the parameters."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def pop_connection_options(parameters: dict[str, Any]) -> ConnectionOptions:
    """The shared options, removed from the parameters of a command."""
    connection = ConnectionOptions(**{field.name: parameters.pop(field.name) for field in fields(ConnectionOptions)})
    if connection.local and connection.endpoint and is_on_command_line("endpoint"):
        raise click.UsageError("--local and --runtime-endpoint exclude each other")
    return connection


def is_on_command_line(name: str) -> bool:
    """Whether an option stands on the command line, and not only in the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


namespace_option: Final = click.option(
    "-n", "--namespace", metavar="NAME", default=None, help="Only pods of this namespace."
)


def _selector(_ctx: click.Context, parameter: click.Parameter, text: str) -> LabelSelector:
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise click.UsageError(f"{parameter.opts[-1]}: {error}") from None


selector_option: Final = click.option(
    "-l",
    "--selector",
    metavar="SELECTOR",
    default="",
    callback=_selector,
    help="Only pods with such labels, as kubectl has it: app=web, app!=db, 'app in (web,db)', '!app', with commas "
    "between them.",
)


def output_option(*choices: str) -> Callable[[_F], _F]:
    """The option -o with the formats that a command has."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", *choices]),
        default="text",
        show_default=True,
        help="For people or programs.",
    )


def files_option(help_text: str, *, required: bool = False) -> Callable[[_F], _F]:
    """The option -f, which may be repeated; a dash is standard input."""
    return click.option(
        "-f",
        "--filename",
        "files",
        metavar="FILE|DIR|-",
        multiple=True,
        required=required,
        callback=_files,
        help=f"{help_text}: a file, a folder with .yaml, .yml and .json files, or - for standard input. May be given "
        "more than once.",
    )


def _files(_ctx: click.Context, _parameter: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(STDIN if file == "-" else file for file in files)


def container_option(command: _F) -> _F:
    """Add -c, the container of a pod."""
    return click.option("-c", "--container", metavar="NAME", default="", help="Which container of the pod.")(command)
