#!/usr/bin/env bash
# All tests: test.sh BIN [PYTEST-OPTIONS]. Unit tests with branch coverage (COVERAGE=no: without) beside
# everything else, which waits for processes and sockets most of the time; what they print comes one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
shift

# The units of the package; units of what is beside it (tools, test support, deployment) run in another row.
units=(tests/unit/{core,config,host,net,cri,relay,hooks,resmgr,dump,kube,node,cli} tests/unit/test_*.py)
# Whole rounds with files and sockets: nothing pure, and slow under coverage.
rounds=tests/property/test_reconcile.py

rest=()
for folder in tests/unit/*; do
    case $folder in
        */__pycache__) ;;
        *) [[ " ${units[*]} " == *" $folder "* ]] || rest+=("$folder") ;;
    esac
done

run_pytest() { # options may choose no test of a row
    "$bin/python" -m pytest "$@" || [ $? = 5 ]
}

unit_tests() {
    local tests=("${units[@]}" tests/property --ignore="$rounds" tests/scenario "${screens[@]/#/--ignore=}")
    if [ "${COVERAGE:-yes}" = no ]; then
        run_pytest -q -W error "$@" "${tests[@]}"
        return
    fi
    "$bin/coverage" erase
    "$bin/coverage" run -m pytest -q -W error "$@" "${tests[@]}"
    [ $# != 0 ] || "$bin/python" tools/check_coverage.py
}

# A screen that waits for itself to be idle after every key.
screens=(tests/unit/dump/live/test_app.py tests/unit/dump/live/test_call_list.py)

# Of what waits most of the time, enough for a second row; nothing of it needs a containerd.
second=(
    tests/integration/test_policy*.py tests/integration/test_config_socket.py
    tests/integration/test_dump*.py tests/integration/test_recording*.py tests/integration/test_replay*.py
    tests/integration/test_agent*.py tests/integration/test_kube_*.py tests/integration/test_api*.py
    tests/integration/test_webhook*.py tests/integration/test_docker*.py tests/integration/test_fake_docker.py
    tests/integration/test_streaming*.py tests/integration/test_shim*.py tests/integration/test_plain*.py
    tests/integration/test_images*.py tests/integration/test_local_runtime*.py tests/integration/test_oci_spec.py
    tests/integration/test_rootfs.py tests/integration/test_cni.py tests/integration/test_cgroup_dirs.py
    tests/integration/test_runtime_process.py tests/integration/test_runtime_docs.py
    tests/integration/test_runtime_manager*.py tests/integration/test_example_runtime.py
    tests/integration/test_manager_kills.py tests/integration/test_pod_*.py
    tests/e2e/test_dump_page.py
)

second_row() {
    run_pytest -q -rs -W error "$@" "${second[@]}" "${screens[@]}"
}

# Tests of what is compiled, on the compiled build.
compiled=(
    tests/unit/core/model tests/unit/cri tests/unit/hooks/dispatch tests/unit/relay
    tests/unit/dump/{capture,model,output,recording,redact}
    tests/unit/net/{grpc,h1,h2} tests/unit/net/test_polled.py
    tests/property/test_frames.py tests/property/test_h2_connection.py tests/property/test_hpack.py
    tests/integration/test_{process,backends,bad_peers,drain,grpcio,interception,interception_wire,taps}.py
    tests/integration/test_{separate_connections,takeover_builds,hook_client,hooks,store}.py
    tests/integration/test_docker_{relay,flow,drain,tunnels,smuggling,upstream,vanishing}.py
    tests/e2e/test_{h2load,faults}.py
)

compiled_row() {
    if ! tools/native.sh "$bin/python"; then
        echo "SKIPPED: the compiled build is not tested"
        return 0
    fi
    make -s native
    bin=build/venv-native/bin run_pytest -q -rs -W error -p no:cacheprovider "$@" "${compiled[@]}"
}

# Rows beside are process groups of their own, which bash does not interrupt with us. Interrupted, pytest stops what its
# tests have started.
printed=$(mktemp -d)
beside=()
stop_beside() {
    for row in "${beside[@]}"; do
        kill -INT -- "-$row" 2>/dev/null && wait "$row" || true
    done
    rm -rf "$printed"
}
trap stop_beside EXIT
trap 'exit 130' INT

run_beside() { # TITLE COMMAND...
    set -m
    (
        trap 'exit 130' INT
        echo "== $1"
        set -e
        "${@:2}"
    ) >"$printed/${#beside[@]}" 2>&1 &
    beside+=($!)
    set +m
}

run_beside "unit and property tests and scenarios, with branch coverage: 100% of what is pure, floors for the rest" \
    unit_tests "$@"
run_beside "policies in the way of calls, dumps, the page and the full screen, the cluster side, Docker mode, the runtime" \
    second_row "$@"

run_beside "the compiled build" compiled_row "$@"

echo "== unit, integration, end to end"
failed=0
run_pytest -q -rs -W error "$@" "${rest[@]}" "$rounds" tests/integration "${second[@]/#/--ignore=}" \
    tests/e2e || failed=1

rows=("${beside[@]}")
for number in "${!rows[@]}"; do
    wait "${rows[number]}" || failed=1
    cat "$printed/$number"
done
beside=()
exit "$failed"
