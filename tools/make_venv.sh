#!/bin/bash
# make_venv.sh DIR PYTHON EXTRA...: an environment in DIR that holds the build and run-time requirements
# and the named extras of pyproject.toml, without the package itself.
set -euo pipefail
dir=$1 python=$2
shift 2
[ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
"$dir/bin/python" "$(dirname "$0")/requirements.py" "$@" | "$dir/bin/python" -W ignore -m pip install -q -r /dev/stdin
