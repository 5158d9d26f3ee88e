#!/usr/bin/env bash
# Build the wheel with the data path compiled: native.sh PYTHON [WHEELS [VENV]]. With VENV, install it into an environment
# of its own that shares everything else with the one of PYTHON, so that tests and benchmarks run on it.
# Exits with 3 if there is no compiler, or no headers of this Python, and they cannot be installed; without WHEELS that is
# all it finds out.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

python=$1 wheels=${2:-} venv=${3:-}

headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
able() { command -v cc >/dev/null && [ -e "$headers" ]; }
able || apt_install gcc libc6-dev python3-dev || true
if ! able; then
    echo "the data path cannot be compiled here: no C compiler, or no $headers" >&2
    exit 3
fi

[ -n "$wheels" ] || exit 0

mkdir -p build
rm -rf "$wheels"
echo "compiling the data path, which takes some minutes"
PIP_CONSTRAINT=constraints.txt INTERPOSE_NATIVE=1 "$python" -m pip wheel -q --disable-pip-version-check --no-deps \
    -w "$wheels" .
[ -n "$venv" ] || exit 0

rm -rf "$venv"
"$python" -m venv --without-pip "$venv"
packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
# Packages of the other environment by path alone: its editable install of the project does not count here.
printf '%s\n' "$(packages "$python")" "$PWD" >"$(packages "$venv/bin/python")/development.pth"
"$python" -m pip --python "$venv/bin/python" install -q --disable-pip-version-check --no-deps --no-index "$wheels"/*.whl
"$venv/bin/interpose" --version
