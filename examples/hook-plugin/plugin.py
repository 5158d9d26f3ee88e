"""A complete hook plugin: containers of pods labelled tier=batch get few CPU shares, and know it. See README.md."""

import argparse
import json
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from interpose.api import hook_pb2 as hook

log = logging.getLogger("batch")


def pre_run_pod_sandbox(request, _context):
    batch = request.labels.get("tier") == "batch"
    return hook.PodSandboxHookResponse(annotations={"example.com/batch": "true"} if batch else {})


def pre_create_container(request, _context):
    if request.pod_labels.get("tier") != "batch":
        return hook.ContainerResourceHookResponse()  # an empty answer changes nothing
    # Only what is named changes: the memory limit, the OOM score and all other environment variables stay.
    few = hook.LinuxContainerResources(cpu_shares=min(request.container_resources.cpu_shares or 2, 128))
    return hook.ContainerResourceHookResponse(container_resources=few, container_envs={"TIER": "batch"})


def post_stop_container(request, _context):
    log.info("Stopped %s/%s", request.pod_meta.name, request.container_meta.name)
    return hook.ContainerResourceHookResponse()


HOOKS = {  # by the names in the registration file
    "PreRunPodSandbox": (pre_run_pod_sandbox, hook.PodSandboxHookRequest),
    "PreCreateContainer": (pre_create_container, hook.ContainerResourceHookRequest),
    "PostStopContainer": (post_stop_container, hook.ContainerResourceHookRequest),
}
METHODS = {
    f"{name}Hook": grpc.unary_unary_rpc_method_handler(answer, asked.FromString, lambda said: said.SerializeToString())
    for name, (answer, asked) in HOOKS.items()
}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--socket", default="/var/run/interpose/batch.sock")
parser.add_argument("--hooks-dir", type=Path, default=Path("/etc/runtime/hookserver.d"))
options = parser.parse_args()
logging.basicConfig(level=logging.INFO)
signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave as on Ctrl-C
service = grpc.method_handlers_generic_handler("runtime.v1alpha1.RuntimeHookService", METHODS)
server = grpc.server(ThreadPoolExecutor(4), handlers=[service])
server.add_insecure_port(f"unix:{options.socket}")
registration = options.hooks_dir / "batch.json"
try:
    server.start()
    text = {"remote-endpoint": options.socket, "failure-policy": "Ignore", "runtime-hooks": list(HOOKS)}
    unfinished = registration.with_suffix(".new")
    unfinished.write_text(json.dumps(text))
    unfinished.replace(registration)  # in one go: nobody ever reads half a file
    server.wait_for_termination()
except KeyboardInterrupt:
    log.info("Leaving")
finally:
    registration.unlink(missing_ok=True)  # first the registration, then the server: no call fails
    server.stop(grace=2).wait()
