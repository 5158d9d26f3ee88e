"""Check that tests/unit mirrors the sources: every module has its test file, every test file its module.

Modules are named by their path below src/interpose (or below bench/ and tools/ with that prefix), without `.py`.
"""

import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

# Modules whose tests are elsewhere, each with the place. Keep it short: an entry is a promise somebody has to keep.
# A name that ends with a slash is a whole folder.
TESTED_ELSEWHERE: Mapping[str, str] = {
    "_pb/cri_pb2": "generated; tests/unit/_pb compares it with the wire table",
    "_pb/hook_pb2": "generated; tests/unit/_pb compares it with the wire table",
    "cri/errors": "exception classes without logic",
    "net/http/errors": "tests/unit/kube/client/test_decode.py",
    "api/hook_pb2": "another name for one release",
    "relay/interceptor": "another name for one release",
    "errors": "exception classes without logic; every user of them asserts their text",
    "cli/relay/interception": "tests/integration/test_hooks.py",
    "cli/relay/interceptors": "tests/integration/test_hooks.py",
    "core/cpuallocator/candidate": "a value; the choices of allocators and policies are made of it",
    "core/model/jsonpatch": "a value; tests/unit/kube/agent/test_node_patches.py and resmgr/test_nodemarks.py make it",
    "core/policy/static/options": "values; tests/unit/config/documents/test_policy_options.py reads them",
    "core/policy/static_pools/options": "values; tests/unit/config/documents/test_policy_options.py reads them",
    "resmgr/config/configuration": "a value; tests/unit/resmgr/config/test_sources.py makes it",
    "hooks/dispatch/client": "tests/integration, against hook servers of every kind",
    "net/httpd/log_level": "tests/integration, over the admin sockets of processes",
    "cli/common/daemon_views": "tests/integration, over the admin sockets of processes",
    "cli/hookserver/admin": "tests/integration/test_hookserver.py, over the admin socket of a process",
    "cli/hookserver/once": "tests/integration/test_hookserver_once.py",
    "cli/hookserver/process": "tests/integration/test_hookserver.py, as a process",
    "config/hookserver/settings": "tests/unit/config/test_schema.py compares it with its table",
    "config/relay/table": "tests/unit/config/test_schema.py and test_load.py",
    "hooks/server/actuators/api": "a protocol; each actuator has tests of its own",
    "hooks/server/metrics": "tests/integration/test_hookserver.py, as scraped from a process",
    "hooks/server/node/nodeslo": "values; tests/unit/hooks/server/node/test_node_document.py makes them",
    "hooks/server/plugin": "the base of every plugin, and values",
    "hooks/server/watching": "tests/unit/hooks/server/test_worker_threads.py, with threads that hang",
    "hooks/server/targets": "values; planning and desired make them",
    "dump/capture/supervisor": "tests/integration/test_dump.py, as processes that hang and die",
    "cli/relay/admin": "tests/integration, over the admin socket of a running relay",
    "cli/relay/process": "tests/integration, as a process",
    "cli/relay/sockets": "tests/integration, as a process",
    "cli/relay/cri_front": "tests/integration, as a process",
    "cli/relay/docker_front": "tests/integration/test_docker_*.py and tests/e2e/test_docker_*.py",
    "cli/relay/fronts": "tests/integration, as a process",
    "relay/backend": "a protocol; every backend has tests of its own",
    "relay/docker/connection": "tests/integration/test_docker_*.py, between raw sockets",
    "relay/docker/client": "tests/integration/test_docker_*.py, between raw sockets",
    "relay/docker/drain": "tests/integration/test_docker_drain.py",
    "relay/docker/eventlines": "tests/integration/test_docker_upstream.py",
    "relay/docker/buffered": "tests/integration/test_docker_intercepted.py",
    "relay/docker/listener": "tests/integration/test_docker_*.py, between raw sockets",
    "relay/docker/passthrough": "tests/integration/test_docker_relay.py and test_docker_flow.py",
    "relay/docker/tunnel": "tests/integration/test_docker_tunnels.py",
    "relay/docker/upstream": "tests/integration/test_docker_upstream.py",
    "relay/docker/socket": "tests/integration/test_docker_*.py, between raw sockets",
    "relay/drain": "tests/integration, as a process",
    "relay/subscriptions": "tests/integration/test_interception.py and tests/unit/relay/docker/test_proxy.py",
    "relay/metrics": "tests/integration, as scraped from a process",
    "relay/proxy": "tests/integration, with grpcio on both sides",
    "net/grpc/client": "tests/integration, against grpcio and our own server",
    "net/grpc/handlers": "tests/integration, as every handler of a server",
    "net/grpc/listener": "tests/integration, with real sockets",
    "net/grpc/servedsocket": "tests/integration/test_config_socket.py and test_agent_socket.py",
    "net/grpc/upstream": "tests/integration, with backends that come and go",
    "dump/live/board": "tests/unit/dump/live/test_app.py, what comes and what is seen",
    "dump/live/call_pane": "tests/unit/dump/live/test_app.py, calls that are opened",
    "dump/live/help": "tests/unit/dump/live/test_app.py",
    "dump/live/news": "values; tests/unit/dump/live/test_feed.py makes them",
    "dump/live/prompt": "tests/unit/dump/live/test_app.py, everything that is asked",
    "dump/live/screen": "tests/unit/dump/live/test_app.py, key by key",
    "cli/agent/admin": "tests/integration/test_agent.py, over the admin socket of a process",
    "cli/agent/process": "tests/integration/test_agent.py, as a process",
    "cli/compat/cri_resmgr_common": "tests/unit/cli/compat/test_cri_resmgr_agent.py and test_cri_resmgr_webhook.py",
    "cli/webhook/process": "tests/integration/test_webhook_process.py",
    "config/agent/settings": "tests/unit/config/test_schema.py compares it with its table",
    "config/webhook/settings": "tests/unit/config/test_schema.py compares it with its table",
    "kube/client/client": "tests/integration/test_kube_client.py, test_kube_watch.py and test_kube_credentials.py",
    "net/http/client": "tests/integration/test_kube_http.py",
    "resmgr/publish/agent_client": "tests/integration/test_publishing.py",
    "cli/relay/embedded": "tests/integration/test_runtime_process.py, as a process",
    "cli/pod/service": "tests/integration/test_pod_service.py, as a process",
    "cli/runtime/admin": "tests/integration/test_runtime_process.py, as a process",
    "cli/runtime/options": "tests/integration/test_runtime_process.py, as a process",
    "cli/runtime/process": "tests/integration/test_runtime_process.py, as a process",
    "cli/runtime/serve": "tests/integration/test_runtime_process.py, as a process",
    "config/runtime/settings": "tests/unit/config/test_schema.py compares it with its table",
    "cri/caller": "a protocol; every runtime and wrapper is one",
    "cri/messages": "the door to generated classes",
    "node/pods/status/container_values": "values; tests/unit/node/pods/status/test_annotations.py reads them back",
    "cri/remote": "tests/integration/test_runtime_manager.py",
    "cri/services": "protocols; tests/unit/cri/test_client.py",
    "testing/managednode": "tests/unit/node/pods stands on it",
    "node/runtime/network/adapter": "tests/integration/test_local_runtime.py",
    "node/runtime/shimclient/adapter": "tests/integration/test_local_runtime.py",
    "node/runtime/service/stats_service": "tests/integration/test_local_runtime.py",
    "node/runtime/service/interfaces": "protocols and values; the lifecycle is made of them",
    "node/runtime/metrics/values": "values; tests/unit/node/runtime/metrics/test_families.py reads them",
    "node/runtime/service/objects": "protocols and values; the lifecycle is made of them",
    "node/runtime/service/methods": "protocols and values; the lifecycle is made of them",
    "node/runtime/state/paths": "protocols and values; the lifecycle is made of them",
    "node/runtime/service/errors": "protocols and values; the lifecycle is made of them",
    "node/runtime/service/verbose_info": "tests/integration/test_local_runtime.py",
    "node/runtime/fs/rootfs": "tests/integration/test_rootfs.py",
    "node/runtime/shimclient/client": "tests/integration/test_shim*.py",
    "node/runtime/shimclient/streams": "tests/integration/test_shim*.py",
    "node/runtime/shim/sessions": "tests/integration/test_shim*.py, as a process",
    "node/runtime/shim/peers": "tests/integration/test_shim*.py, as a process",
    "node/runtime/shim/launch": "tests/integration/test_shim*.py, as a process",
    "node/runtime/shim/streams": "tests/integration/test_shim*.py, as a process",
    "node/runtime/shim/pause": "tests/integration/test_shim*.py, as a process",
    "node/runtime/plain/main": "tests/integration/test_plain.py, as a process",
    "node/runtime/images/blob": "tests/integration/test_images_pull.py",
    "node/runtime/images/registry/pull": "tests/integration/test_images_pull.py",
    "node/runtime/images/registry/client": "tests/integration/test_images_pull.py",
    "net/streaming/handler": "protocols and values",
    "net/streaming/limits": "protocols and values",
    "net/streaming/byte_transport": "tests/integration/test_streaming*.py",
    "net/streaming/socketwire": "tests/integration/test_streaming*.py",
    "net/streaming/mux_transports": "tests/integration/test_streaming*.py",
    "net/streaming/websocketlink": "tests/integration/test_streaming*.py",
    "net/streaming/exec_session": "tests/integration/test_streaming*.py",
    "net/streaming/copy": "tests/integration/test_streaming*.py",
    "net/streaming/connect": "tests/integration/test_streaming*.py",
    "net/streaming/client": "tests/integration/test_streaming*.py",
    "net/streaming/portforward_client": "tests/integration/test_streaming*.py",
    "net/streaming/server": "tests/integration/test_streaming*.py",
    "kube/webhook/metrics": "tests/integration/test_webhook.py, as scraped",
    "kube/webhook/server": "tests/integration/test_webhook.py, over TLS",
    "testing/conformance/": "tests/e2e/test_cri_conformance*.py are made of it",
    "testing/typed": "tests/integration/test_streaming*.py stand on it",
    "testing/fakeattendant": "tests/integration/test_streaming*.py stand on it",
    "testing/hostile/": "tests/integration/test_neighbours.py runs every attack beside a neighbour",
    "testing/imagefiles": "tests/unit/node/runtime/images stands on it",
    "testing/imagekill": "tests/integration/test_images*.py, as a process that is killed",
    "testing/keptnode": "tests/unit/node/pods stands on it",
    "testing/lab/killable": "tests/e2e stands on it",
    "testing/lab/mortalpod": "tests/e2e stands on it",
    "testing/lab/podoutcome": "tests/e2e stands on it",
    "testing/lab/podrun": "tests/e2e stands on it",
    "testing/lab/podscript": "tests/e2e stands on it",
    "testing/lab/runtime": "tests/e2e stands on it",
    "testing/layermodel": "tests/property/test_image_layers.py stands on it",
    "testing/localchurn": "tests/integration/test_local_runtime_kills.py, as a process that is killed",
    "testing/localclient": "tests/unit/node/runtime stands on it",
    "testing/localnode": "tests/integration stands on it",
    "testing/localparts": "tests/unit/node/runtime stands on it",
    "testing/ocibundle": "tests/integration/test_oci_spec.py stands on it",
    "testing/podcommands": "tests/unit/cli/test_pod_*.py stand on it",
    "testing/registry": "tests/integration/test_images_pull.py stands on it",
    "testing/servedruntime": "tests/unit/cli stands on it",
    "testing/shimnode": "tests/integration/test_shim*.py stand on it",
    "testing/demostory": "tests/integration/test_demo.py",
    "testing/lab/embedded": "tests/e2e stands on it",
    "testing/lab/killsoak": "a long loop for people and make soak; tests/e2e/test_runtime_kills.py has its steps",
    "testing/agentstack": "tests/integration stands on it",
    "testing/apiserver/connection": "tests/integration/test_apiserver.py",
    "testing/apiserver/server": "tests/integration/test_apiserver.py and test_api_conformance.py",
    "testing/apiserver/webhookcaller": "tests/integration/test_apiserver.py",
    "testing/clusters": "tests/integration/test_api_conformance.py stands on it",
    "testing/lab/cluster": "tests/e2e stands on it",
    "testing/lab/webhook": "tests/e2e stands on it",
    "testing/dockercalls": "tests/unit/relay/docker stands on it",
    "testing/dockerstack": "tests/integration stands on it",
    "testing/dockerwire": "tests/integration stands on it",
    "testing/fakedocker/api": "tests/integration/test_fake_docker.py",
    "testing/fakedocker/server": "tests/integration/test_fake_docker.py",
    "testing/fakedocker/streams": "tests/integration/test_fake_docker.py",
    "testing/fakedocker/wire": "tests/integration/test_fake_docker.py",
    "testing/lab/dockerpods": "tests/e2e stands on it",
    "testing/demo": "tests/integration/test_demo.py",
    "testing/nodeapi": "tests/unit/kube/agent and tests/integration stand on it",
    "testing/scriptedkube": "tests/integration stands on it",
    "testing/scriptedserver": "tests/integration stands on it",
    "testing/echoservice": "tests/integration stands on it",
    "testing/runtimeprocess": "tests/integration stands on it",
    "testing/hookfakes": "tests/unit/hooks/dispatch stands on it",
    "testing/hookstack": "tests/integration stands on it",
    "testing/policynode": "tests/unit/resmgr stands on it",
    "testing/managercaller": "tests/unit/resmgr stands on it",
    "testing/policychecks": "tests/integration stands on it",
    "testing/policystack": "tests/integration stands on it",
    "testing/seams": "tests/integration stands on it",
    "testing/grpcpeer": "tests/integration stands on it",
    "testing/rawbackend": "tests/integration stands on it",
    "testing/serve": "tests/integration stands on it",
    "testing/stack": "tests/integration stands on it",
    "testing/files": "tests/unit/host stands on it",
    "testing/lab/containerd": "tests/e2e stands on it",
    "testing/lab/daemon": "tests/e2e stands on it",
    "testing/lab/dockerd": "tests/e2e/test_lab.py",
    "testing/lab/dumps": "tests/e2e stands on it",
    "testing/lab/haproxy": "tests/e2e/test_lab.py",
    "testing/lab/load": "tests/e2e stands on it",
    "testing/lab/nginx": "tests/e2e/test_lab.py",
    "testing/lab/policypods": "tests/e2e stands on it",
    "testing/lab/pods": "tests/e2e stands on it",
    "testing/hookparts": "tests/unit/hooks/server stands on it",
    "testing/lab/hookserver": "tests/e2e stands on it",
    "testing/lab/qospods": "tests/e2e stands on it",
    "testing/lab/relay": "tests/e2e stands on it",
}

# Test files about something else than one module, each with what.
OF_NO_MODULE: Mapping[str, str] = {
    "_pb/test_cri_table": "the generated classes against tests/data/wire",
    "_pb/test_hook_table": "the generated classes against tests/data/wire",
    "_pb/test_generated": "proto/ and tools/gen_proto.py",
    "net/h2/test_connection_splice": "the part of h2/connection that ties two streams together",
    "net/h1/test_corpus": "tests/data/h1corpus",
    "net/h2/test_corpus": "tests/data/h2corpus",
    "dump/recording/test_writer_faults": "dump/recording on disks that do not work, and beside others",
    "deploy/test_chart": "deploy/helm",
    "deploy/test_config_maps": "samples/configmaps",
    "deploy/test_crd": "deploy/crds",
    "deploy/test_image": "deploy/Dockerfile",
    "deploy/test_kustomize": "deploy/kustomize",
    "deploy/test_monitoring": "deploy/monitoring",
    "deploy/test_node_guard": "deploy/kustomize/options/node-guard",
    "deploy/test_workloads": "what the pods of deploy/ run",
    "test_deploy": "deploy/",
    "test_reference": "docs/reference and tools/gen_reference.py",
}


def modules(root: Path = ROOT) -> Iterator[str]:
    """The modules of the package. Scripts in bench/ and tools/ may have tests but need none."""
    package = root / "src/interpose"
    for path in package.rglob("*.py"):
        if not path.name.startswith("__"):
            yield path.relative_to(package).with_suffix("").as_posix()


def scripts(root: Path = ROOT) -> Iterator[str]:
    """What else a test file may mirror."""
    for folder in ("bench", "tools"):
        for path in (root / folder).rglob("*.py"):
            yield path.relative_to(root).with_suffix("").as_posix()


def unit_tests(root: Path = ROOT) -> Iterator[str]:
    """The unit tests, by their path below tests/unit."""
    folder = root / "tests/unit"
    for path in folder.rglob("test_*.py"):
        yield path.relative_to(folder).with_suffix("").as_posix()


def mirrored(test: str, known: Set[str] = frozenset()) -> str:
    """The module a test file stands for. A long test may be split: test_frames_padding also mirrors frames."""
    path = PurePosixPath(test)
    name = (path.parent / path.name.removeprefix("test_")).as_posix()
    shorter = name
    while shorter not in known and "_" in PurePosixPath(shorter).name:
        shorter = shorter.rpartition("_")[0]
    return shorter if shorter in known else name


def problems(
    found: Set[str],
    others: Set[str],
    tested: Set[str],
    elsewhere: Mapping[str, str] = TESTED_ELSEWHERE,
    of_no_module: Mapping[str, str] = OF_NO_MODULE,
) -> list[str]:
    """What breaks the mirror: `found` modules, `others` that may be tested, `tested` test files."""
    known = found | others
    covered = {mirrored(test, known) for test in tested}
    folders = tuple(name for name in elsewhere if name.endswith("/"))
    there = found | {folder for folder in folders if any(module.startswith(folder) for module in found)}
    lines = [
        f"src/interpose/{module}.py has no tests/unit/{mirror_of(module)}.py"
        for module in sorted(found - covered - elsewhere.keys())
        if not module.startswith(folders)
    ]
    lines += [
        f"tests/unit/{test}.py mirrors no module: there is no {mirrored(test)}.py"
        for test in sorted(tested - of_no_module.keys())
        if mirrored(test, known) not in known
    ]
    lines += [
        f"tools/check_mirror.py lists {module}, which {'is gone' if module not in there else 'has its own test now'}"
        for module in sorted(elsewhere)
        if module not in there or module in covered
    ]
    return lines


def mirror_of(module: str) -> str:
    """The test file of a module."""
    path = PurePosixPath(module)
    return (path.parent / f"test_{path.name}").as_posix()


def main() -> int:
    """Print what is wrong; exit code 1 if anything is."""
    lines = problems(set(modules()), set(scripts()), set(unit_tests()))
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
