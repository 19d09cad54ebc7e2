#!/bin/bash
# test_all.sh PYTEST-ARGS...: the suite on each CPython from 3.10 to 3.13 found on PATH or under ~/.pyenv.
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
for version in 3.10 3.11 3.12 3.13; do
    for python in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python3; do
        "$python" -c 'import ensurepip, sys; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' \
            "$version" 2>/dev/null && break
        python=
    done
    if [ -z "$python" ]; then
        echo "== Python $version: not found"
        continue
    fi
    echo "== Python $version: $python"
    if make --no-print-directory test VENV=".venv-$version" PYTHON="$python" TESTS="${*:-tests}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
