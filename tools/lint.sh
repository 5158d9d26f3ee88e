#!/usr/bin/env bash
# Every check that runs nothing of the program: lint.sh BIN. All are run, so that one go shows everything.
set -uo pipefail
cd "$(dirname "$0")/.."

bin=$1
failed=()
check() { # NAME COMMAND...
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        printf '%s\n' "$output"
        failed+=("$name")
    fi
}

check "ruff format" "$bin/ruff" format --check .
check "ruff check" "$bin/ruff" check .
check "mypy" "$bin/mypy"
check "lint-imports" "$bin/lint-imports"
check "generated classes" "$bin/python" tools/gen_proto.py --check
check "generated pages" "$bin/python" tools/gen_reference.py --check
check "table of runtimes" "$bin/python" tools/support_page.py --check
check "generated corpora" "$bin/python" tools/gen_h2_corpus.py --check
check "corpus of HTTP/1.1" "$bin/python" tools/gen_h1_corpus.py --check
check "folders, lengths, names, docstrings" "$bin/python" tools/check_tree.py
check "limits of time in tests" "$bin/python" tools/check_waits.py
check "paths and hosts" "$bin/python" tools/check_text.py
check "links in documents" "$bin/python" tools/check_links.py

if [ ${#failed[@]} != 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
