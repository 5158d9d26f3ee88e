#!/usr/bin/env bash
# All tests: test.sh BIN [PYTEST-OPTIONS]. The pure parts first, with their branch coverage; the slow ones last.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
shift

pure=(h2 model hookapi store dispatcher relay runtimehooks)
# Whole rounds with files and sockets: nothing pure, and slow under coverage.
rounds=tests/property/test_reconcile.py
echo "== pure parts (pyproject.toml lists them): unit and property tests, branch coverage 100%"
"$bin/coverage" erase
"$bin/coverage" run -m pytest -q -W error "$@" "${pure[@]/#/tests/unit/}" tests/property --ignore="$rounds"
"$bin/coverage" report --skip-covered --fail-under=100

echo "== everything else: unit, integration, end to end"
rest=()
for folder in tests/unit/*; do
    case $folder in
        */__pycache__) ;;
        *) [[ " ${pure[*]} " == *" ${folder##*/} "* ]] || rest+=("$folder") ;;
    esac
done
"$bin/python" -m pytest -q -rs -W error "$@" "${rest[@]}" "$rounds" tests/integration tests/e2e
