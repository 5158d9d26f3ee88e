#!/usr/bin/env bash
# Make or refresh the virtual environment: venv.sh PYTHON VENV STAMP
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/apt.sh

python=$1 venv=$2 stamp=$3

works() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

if ! works && [ "$python" = python3 ]; then
    apt_install python3 python3-venv
fi
if ! works; then
    echo "$python cannot be run or lacks its venv module: name another with make PYTHON=..." >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is $("$python" -V 2>&1): 3.11 or later is needed, name another with make PYTHON=..." >&2
    exit 1
fi

version() { "$1" -c 'import sys; print(sys.implementation.name, sys.version_info[:3], sys.base_prefix)'; }
if [ ! -x "$venv/bin/python" ] || [ "$(version "$venv/bin/python")" != "$(version "$python")" ]; then
    echo "making $venv with $("$python" -V)"
    "$python" -m venv --clear "$venv"
fi
echo "installing into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
touch "$stamp"
