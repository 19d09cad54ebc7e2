#!/bin/bash
# asan.sh PYTHON PYTEST-ARGS...: builds the extension with AddressSanitizer and UBSan into build/asan and runs the
# suite on it. The sanitizer's run-time library has to be in the process before Python is, hence the preload;
# libstdc++ goes with it so that the interceptor of C++ exceptions finds the real function. A report is written to the
# descriptor of stderr, which pytest must not capture: it would be lost.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
export TORCHLITE_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O0 -g1"
# Without free lists each object is memory of its own, which the sanitizer can watch.
TORCHLITE_CFLAGS+=" -DTORCHLITE_NO_FREELISTS -Wno-error"
export TORCHLITE_LDFLAGS="-fsanitize=address,undefined"
"$python" setup.py -q build_py --build-lib build/asan/lib \
    build_ext --build-lib build/asan/lib --build-temp build/asan/temp

unset TORCHLITE_CFLAGS TORCHLITE_LDFLAGS
runtime() { ${CXX:-g++} -print-file-name="$1"; }
# PYTHONSAFEPATH keeps the plain build in the working directory out of the way of child processes.
exec env PYTHONPATH="$PWD/build/asan/lib" PYTHONSAFEPATH=1 PYTHONMALLOC=malloc TORCHLITE_SANITIZED=1 \
    LD_PRELOAD="$(runtime libasan.so) $(runtime libubsan.so) $(runtime libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:check_initialization_order=1:allocator_may_return_null=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$python" -X dev -W error "$(dirname "$python")/pytest" --capture=sys "$@"
