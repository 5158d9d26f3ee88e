"""The pages about pods and the runtime say what is so: commands are run, lists are held against the code."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from click import ClickException

from interpose._pb import cri_pb2 as cri
from interpose.cli.common.admin_client import ask
from interpose.cli.pod.options import LOG_ROOT, ROOT
from interpose.config.documents.yaml import parse_document
from interpose.config.relay.settings import RelaySettings
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME
from interpose.cri.services import ImageService, RuntimeService
from interpose.node.pods.logs.rotation import LogLimits
from interpose.node.pods.sync.backoff import KeyedBackoff
from interpose.node.pods.sync.loop import SyncPeriods
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.runtime.images.registry.endpoints import read_registries
from interpose.node.runtime.network.conf import parse
from interpose.node.runtime.plain.isolation import ALWAYS, WITHOUT_ROOT
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.doc_session import Command, commands_of, files_of, fits
from tests.support.lab.cri import CriClient
from tests.support.lab.images import APPLETS, ImageSpec, archive, layer
from tests.support.lab.processes import Child
from tests.support.lab.relay import program

CHECKOUT = Path(__file__).parents[2]
PODS = (CHECKOUT / "docs/pods.md").read_text()
PAGE = (CHECKOUT / "docs/runtime.md").read_text()
DEVELOPERS = (CHECKOUT / "docs/kuberuntime.md").read_text()
LIFE = (CHECKOUT / "docs/life-of-a-pod.md").read_text()
FLAGS = (CHECKOUT / "docs/reference/flags.md").read_text()
SETTINGS = RuntimeSettings()
# Where whoever reads the pages has their files.
HOME = "/srv/pods"
# Flags of other programs on these pages.
FOREIGN = {"--container-runtime", "--container-runtime-endpoint", "--now", "--systemd-cgroup"}
# What stands before a dot and is a file, a message of CRI, or of the proposal.
FILES = {"config", "exit", "Version", "NetworkPlugin"}
IMAGE = ImageSpec(reference="docker.io/library/busybox:1.36", command=("sh",))


def places(scratch: Path) -> dict[str, str]:
    """Where everything is in the folder of a test, by where it is on a node."""
    return {
        SETTINGS.listen: str(scratch / "r.sock"),
        SETTINGS.admin.listen: str(scratch / "a.sock"),
        SETTINGS.root: str(scratch / "root"),
        SETTINGS.state: str(scratch / "state"),
        SETTINGS.network.conf_dir: str(scratch / "cni"),
        ROOT: str(scratch / "pods"),
        LOG_ROOT: str(scratch / "logs"),
    }


@pytest.fixture
def environment(scratch: Path) -> dict[str, str]:
    """The variables that say so."""
    at = places(scratch)
    return {
        **os.environ,
        "INTERPOSE_RUNTIME_LISTEN": at[SETTINGS.listen],
        "INTERPOSE_RUNTIME_ADMIN_LISTEN": at[SETTINGS.admin.listen],
        "INTERPOSE_RUNTIME_ROOT": at[SETTINGS.root],
        "INTERPOSE_RUNTIME_STATE": at[SETTINGS.state],
        "INTERPOSE_RUNTIME_CNI_CONF_DIR": at[SETTINGS.network.conf_dir],
        "INTERPOSE_RUNTIME_EXECUTOR": "plain",
        "INTERPOSE_POD_ROOT": at[ROOT],
        "INTERPOSE_POD_LOG_ROOT": at[LOG_ROOT],
        "INTERPOSE_POD_RUNTIME_ENDPOINT": at[SETTINGS.listen],
    }


@pytest.fixture
def say(scratch: Path, environment: dict[str, str]) -> Callable[[str], "subprocess.CompletedProcess[str]"]:
    """Runs a command of a page, with the paths of the test."""
    at = places(scratch)

    def run(line: str) -> "subprocess.CompletedProcess[str]":
        for there, here in at.items():
            line = line.replace(there, here)
        first, *words = shlex.split(line)
        assert first == "interpose"
        done = subprocess.run(
            [str(program()), *words],
            cwd=scratch,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=WAIT_LIMIT,
        )
        text = done.stdout.replace(os.path.realpath(scratch), str(scratch))
        for there, here in at.items():
            text = text.replace(here, there)
        text = text.replace(str(scratch), HOME)
        return subprocess.CompletedProcess(done.args, done.returncode, text)

    return run


@pytest.fixture
def runtime(scratch: Path, environment: dict[str, str], spawn: Callable[..., Child]) -> Child:
    """A runtime that starts ordinary processes: root or not, it works."""
    (scratch / "cni").mkdir()
    child = spawn(sys.executable, "-c", "from interpose.cli.main import main; main()", "runtime", env=environment)
    child.wait_until(lambda: serves(scratch / "a.sock"), what="the runtime to serve")
    return child


def serves(admin: Path) -> bool:
    """Whether calls are answered."""
    try:
        return bool(ask(str(admin), "GET", "/v1/status", who="runtime")["serving"])
    except (OSError, ClickException):
        return False


def told(command: Command, done: "subprocess.CompletedProcess[str]") -> None:
    """The command came to what the page says: also whether it failed."""
    assert fits(command.printed, done.stdout.splitlines()), f"$ {command.line}\n{done.stdout}"
    failed = any(line.startswith("error:") for line in command.printed)
    assert (done.returncode != 0) is failed, f"$ {command.line}\n{done.returncode}"


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
@pytest.mark.parametrize("page", [PODS, PAGE], ids=["pods", "runtime"])
def test_a_session_of_a_page_goes_as_it_says(
    page: str, scratch: Path, runtime: Child, say: Callable[[str], "subprocess.CompletedProcess[str]"]
) -> None:
    """Command by command, with the files of the page and an image of busybox."""
    program_file = Path(shutil.which("busybox") or "")
    (scratch / "busybox.tar").write_bytes(archive(IMAGE, layer(program_file.read_bytes(), APPLETS)))
    for name, text in files_of(page).items():
        (scratch / name).write_text(text)
    try:
        for command in commands_of(page):
            told(command, say(command.line))
    finally:
        say("interpose pod rm --all --grace 0")


def test_the_pages_have_sessions() -> None:
    """They are found; a session that says something else would be, too."""
    assert len(list(commands_of(PODS))) >= 10
    assert len(list(commands_of(PAGE))) >= 2


def test_a_runtime_can_be_used_as_the_page_says(
    scratch: Path, runtime_path: Path, start_runtime: Callable[..., Child]
) -> None:
    """Its program prints who is there and which pods there are."""
    start_runtime()
    (scratch / "pods.py").write_text(files_of(DEVELOPERS)["pods.py"])
    done = subprocess.run(
        [sys.executable, scratch / "pods.py", runtime_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_LIMIT,
    )
    first, *pods = done.stdout.splitlines()
    assert first == "containerd v1"
    assert len(pods) == 10


def test_the_beginning_of_a_runtime_is_one(scratch: Path, spawn: Callable[..., Child]) -> None:
    """It answers in both versions, and what it has not is UNIMPLEMENTED."""
    (scratch / "beginning.py").write_text(files_of(DEVELOPERS)["beginning.py"])
    child = spawn(sys.executable, scratch / "beginning.py", scratch / "mine.sock")
    child.wait_listening(scratch / "mine.sock")
    with CriClient(scratch / "mine.sock") as client:
        assert client.call("Version", cri.VersionRequest()).runtime_name == "mine"
        with pytest.raises(grpc.RpcError) as caught:
            client.call("ListPodSandbox")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_the_names_of_the_page_are_in_the_interface() -> None:
    """Of methods in Python's spelling, and of the modules that are to be read."""
    methods = {name for service in (RuntimeService, ImageService, RuntimeManager) for name in dir(service)}
    table = DEVELOPERS.partition("| 2016 | today | here |")[2].partition("\n\n")[0]
    named = [
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row.rpartition(" | ")[2])
    ]
    assert len(named) > 15
    assert set(named) - methods == set()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w+)\.[\w.]+`", LIFE + DEVELOPERS))))
def test_modules_of_the_pages_exist(name: str) -> None:
    """Each is a module or a package of the manager, of the runtime or beside them; or a class of one."""
    known = {path.stem for path in (CHECKOUT / "src/interpose").rglob("*.py")}
    known |= {path.name for path in (CHECKOUT / "src/interpose").rglob("*") if path.is_dir()} | {"interpose", "tests"}
    text = "".join(path.read_text() for path in (CHECKOUT / "src/interpose").rglob("*.py"))
    assert name in known or f"class {name}" in text or name in FILES


def test_what_is_not_isolated_is_on_the_page() -> None:
    """Sentence by sentence, what holds as root first."""
    listed = re.findall(r"^- (.+)$", PAGE.partition("## Executors")[2].partition("## Images")[0], re.MULTILINE)
    assert tuple(listed) == (*ALWAYS, *WITHOUT_ROOT)


def test_the_examples_of_files_can_be_read() -> None:
    """Registries, and a network."""
    found = read_registries(parse_document(files_of(PAGE)["registries.yaml"], "registries.yaml"), "registries.yaml")
    assert [str(one.server.host) for one in found.of("docker.io")] == ["mirror.example", "registry-1.docker.io"]
    [text] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert [plugin["type"] for plugin in parse(text, "page").plugins] == ["ptp", "portmap"]


def test_places_are_those_of_the_programs() -> None:
    """Sockets and folders."""
    for path in (SETTINGS.listen, SETTINGS.admin.listen, SETTINGS.root, SETTINGS.state):
        assert path in PAGE
    for path in (RelaySettings().listen, SETTINGS.listen, f"{ROOT}/pods", LOG_ROOT):
        assert path in PODS


def test_times_and_limits_are_those_of_the_manager() -> None:
    """In the table of what is done when."""
    periods, limits = SyncPeriods(), LogLimits()
    assert (periods.relist, periods.garbage) == (1.0, 60.0)
    assert f"at {limits.size >> 20} MiB, {limits.files} files of a container" in PODS
    backoff = KeyedBackoff()
    assert [backoff.next("a", 0.0), backoff.next("a", 20.0)] == [10.0, 20.0]
    assert "after 10 s, 20 s and so on up to 5 min" in PODS


@pytest.mark.parametrize("page", [PODS, PAGE, DEVELOPERS], ids=["pods", "runtime", "developers"])
def test_flags_of_the_pages_exist(page: str) -> None:
    """In the help of some command of ours, or they are known to be somebody else's."""
    known = set(re.findall(r"--[a-z][a-z-]+", FLAGS)) | {setting.flag for setting in RUNTIME.table}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) - known - FOREIGN == set()


@pytest.mark.parametrize("page", [PODS, PAGE], ids=["pods", "runtime"])
def test_the_list_at_the_top_leads_to_every_section(page: str) -> None:
    """In their order."""
    titles = re.findall(r"^## (.+)$", page, re.MULTILINE)
    listed = re.findall(r"^- \[(.+)\]\(#(.+)\)$", page, re.MULTILINE)
    assert listed == [(title, title.lower().replace(",", "").replace(" ", "-")) for title in titles]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\b(?:deploy|samples)/[\w./-]+\.\w+", PODS + PAGE))))
def test_files_of_the_pages_exist(name: str) -> None:
    """What is to be copied is there."""
    assert (CHECKOUT / name).is_file()
