#!/usr/bin/env bash
# Install the programs of the end-to-end tests and benchmarks if they are missing and we may. Never fails: without them
# those tests are skipped, with the reason.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

missing=()
need() { # PROGRAM-OR-FILE PACKAGE
    if ! command -v "$1" >/dev/null && [ ! -e "$1" ]; then missing+=("$2"); fi
}

need containerd containerd
need runc runc
need /usr/lib/cni/host-local containernetworking-plugins
need busybox busybox-static
need h2load nghttp2-client
need haproxy haproxy
need nginx nginx-light
need socat socat
need ip iproute2
need dockerd docker.io
need chromium chromium
need kubectl kubernetes-client

if [ ${#missing[@]} != 0 ]; then
    apt_install "${missing[@]}" || echo "the tests that need them will be skipped" >&2
fi
# Runtimes of other suites, beside those of the machine.
tools/e2e_runtimes.sh
exit 0
