"""Checks of requests before anything is done; errors name the field. Messages in, errors out."""

from collections.abc import Collection

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.fs.etc_files import line_problem
from interpose.node.runtime.oci.resources import check_parent, check_resources
from interpose.node.runtime.oci.spec_types import SpecError
from interpose.node.runtime.service.errors import invalid, invalid_spec, unsupported

_MAX_HOSTNAME = 64  # of the kernel
_MAX_LOG_PATH = 4000  # the kernel takes 4096: some room for the names of rotated logs
_MAX_LOG_FOLDERS = 100


def check_sandbox(config: cri.PodSandboxConfig, handler: str, handlers: Collection[str], driver: str) -> None:
    """Check the sandbox config of a RunPodSandbox request."""
    if not config.HasField("metadata"):
        raise invalid("config.metadata", "sandbox config must include metadata")
    for field in ("name", "namespace", "uid"):
        if not getattr(config.metadata, field):
            raise invalid(f"config.metadata.{field}", "must not be empty")
    if handler not in ("", *handlers):
        known = ", ".join(handlers)
        raise invalid("runtime_handler", f'no runtime for "{handler}" is configured (there is {known})')
    if len(config.hostname.encode()) > _MAX_HOSTNAME:
        raise invalid("config.hostname", f'"{config.hostname}" has more than {_MAX_HOSTNAME} bytes')
    if any(char.isspace() or not char.isprintable() for char in config.hostname):
        raise invalid("config.hostname", f"{config.hostname!r} is not one word")
    if config.log_directory and (not config.log_directory.startswith("/") or "\0" in config.log_directory):
        raise invalid("config.log_directory", f"{config.log_directory!r} is not an absolute path")
    if config.HasField("windows"):
        raise invalid("config.windows", "this is Linux")
    try:
        check_parent(config.linux.cgroup_parent, driver)
    except SpecError as error:
        raise invalid_spec(f"config.{error.where}", error) from None
    if problem := line_problem(config.dns_config):
        raise invalid("config.dns_config", problem)
    _check_namespaces("config.linux.security_context.namespace_options", config.linux.security_context)


def check_container(config: cri.ContainerConfig, log_directory: str) -> None:
    """Check the config of a CreateContainer request for a sandbox with this log directory."""
    if not config.HasField("metadata") or not config.metadata.name:
        raise invalid("config.metadata", "container config must include metadata with a name")
    if not config.image.image:
        raise invalid("config.image.image", "must not be empty")
    if config.HasField("windows"):
        raise invalid("config.windows", "this is Linux")
    if config.CDI_devices:
        raise unsupported("config.CDI_devices")
    _check_log_path(config.log_path, log_directory)
    try:
        check_resources(config.linux.resources)
    except SpecError as error:
        raise invalid_spec(f"config.{error.where}", error) from None
    _check_namespaces("config.linux.security_context.namespace_options", config.linux.security_context)


def check_update(request: cri.UpdateContainerResourcesRequest) -> None:
    """Check an UpdateContainerResources request."""
    if request.HasField("windows"):
        raise unsupported("windows")
    try:
        check_resources(request.linux)
    except SpecError as error:
        raise invalid_spec(updated_field(error), error) from None


def updated_field(error: SpecError) -> str:
    """The field name of a resources error, as an update request has it."""
    return error.where.replace("linux.resources.", "linux.", 1)


def check_streams(request: cri.ExecRequest | cri.AttachRequest) -> None:
    """Check the streams of an Exec or Attach request."""
    if not (request.stdin or request.stdout or request.stderr):
        raise RpcError(Code.INVALID_ARGUMENT, "one of stdin, stdout or stderr must be set")
    if request.tty and request.stderr:
        raise RpcError(Code.INVALID_ARGUMENT, "tty and stderr cannot both be true")


def check_command(command: Collection[str]) -> None:
    """Check the command of an ExecSync or Exec request."""
    if not command:
        raise invalid("cmd", "must not be empty")


def _check_log_path(path: str, folder: str) -> None:
    field = "config.log_path"
    if "\0" in path:
        raise invalid(field, f"{path!r} has a zero byte in it")
    if ".." in path.split("/"):
        raise invalid(field, f'"{path}" must not have .. in it')
    whole = f"{folder}/{path}"
    if len(whole.encode()) > _MAX_LOG_PATH:
        raise invalid(field, f"has more than {_MAX_LOG_PATH} bytes with its folder")
    if len([part for part in whole.split("/")[:-1] if part]) > _MAX_LOG_FOLDERS:
        raise invalid(field, f"is in more than {_MAX_LOG_FOLDERS} folders")


def _check_namespaces(
    field: str, security: cri.LinuxSandboxSecurityContext | cri.LinuxContainerSecurityContext
) -> None:
    options = security.namespace_options
    if options.HasField("userns_options") and options.userns_options.mode != cri.NODE:
        raise unsupported(f"{field}.userns_options: user namespaces")
    if options.pid == cri.TARGET and not options.target_id:
        raise invalid(f"{field}.target_id", "must not be empty with pid TARGET")
