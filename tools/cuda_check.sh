#!/usr/bin/env bash
# Builds the extension and runs what needs a CUDA device: tests/cuda, the contract test against CuPy, and the speed of
# tiny operations. Prints one table; its columns are what, and the outcome. Skips with status 0 where there is no CuPy or
# no device. Needs no network.
#
#   tools/cuda_check.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-$(tools/find_python.sh)}
export PYTHONPATH=.

"$python" setup.py -q build_ext --inplace >/dev/null 2>&1 || { echo "| build | failed |"; exit 1; }
if ! "$python" -c 'import sys, torchlite; sys.exit(not torchlite.cuda.is_available())'; then
  reason=$("$python" -c 'import torchlite
try:
    torchlite.FloatTensor(1).cuda()
except RuntimeError as e:
    print(e)')
  echo "skipped: $reason"
  exit 0
fi

table=$(mktemp)
trap 'rm -f "$table"' EXIT
status=0
echo "| what | outcome |" >"$table"
echo "|---|---|" >>"$table"
run() {  # run NAME COMMAND...: one line, the last of the command's output
  local name=$1 output
  shift
  if output=$(timeout 240 "$@" 2>&1); then
    echo "| $name | $(grep -E 'passed|skipped' <<<"$output" | tail -1 || true) |" >>"$table"
  else
    status=1
    echo "$output" | tail -40 >&2
    echo "| $name | FAILED: $(tail -1 <<<"$output") |" >>"$table"
  fi
}
run "rows on the device" "$python" -m pytest -q -o addopts= -p no:cacheprovider --tb=short tests/cuda/test_rows_on_device.py
run "memory, streams, devices" "$python" -m pytest -q -o addopts= -p no:cacheprovider --tb=short tests/cuda/test_device.py
run "contract with CuPy" "$python" -m pytest -q -o addopts= -p no:cacheprovider --tb=short tests/cuda_standin/test_contract.py
if speed=$(timeout 120 "$python" tests/cuda/speed.py 2>&1); then
  sed 's/^/| /; s/$/ |/' <<<"$speed" >>"$table"
else
  status=1
  echo "$speed" | tail -20 >&2
  echo "| speed | FAILED |" >>"$table"
fi
cat "$table"
exit $status
