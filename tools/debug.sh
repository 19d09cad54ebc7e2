#!/bin/bash
# debug.sh PYTEST-ARGS...: the suite under a debug build of CPython (Debian's python3.11-dbg, or $DEBUG_PYTHON), with
# its reference total watched. NumPy is compiled for that interpreter once and kept in .cache: a release wheel
# loads, but the references that its inlined code takes and drops would be missing from the total. With
# RELEASE_NUMPY=1 that wheel is used and the total is not checked.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${DEBUG_PYTHON:-python3.11-dbg}
venv=.venv-debug wheels=.cache/debug-wheels
command -v "$python" >/dev/null || { echo "make debug needs $python: apt-get install python3.11-dbg python3.11-venv" >&2; exit 1; }

[ -x $venv/bin/python ] || "$python" -m venv $venv
if [ ! -e $venv/.numpy ]; then
    if [ -z "${RELEASE_NUMPY:-}" ] && ! ls $wheels/numpy-*.whl >/dev/null 2>&1; then
        echo "compiling NumPy for $python, a few minutes, once"
        mkdir -p $wheels
        $venv/bin/python -W ignore -m pip install -q -U pip  # -C may be given more than once only since 23.1
        # No BLAS, no vector units, no optimisation: it is only there to be counted.
        timeout "${NUMPY_SECONDS:-1200}" $venv/bin/python -W ignore -m pip wheel -q --no-deps --no-binary numpy -w $wheels \
            -Csetup-args=-Dallow-noblas=true -Csetup-args=-Dblas=none -Csetup-args=-Dlapack=none \
            -Csetup-args=-Dcpu-baseline=none -Csetup-args=-Dcpu-dispatch=none -Csetup-args=-Ddisable-svml=true \
            -Csetup-args=-Dbuildtype=plain -Csetup-args=-Doptimization=0 "numpy>=2" ||
            echo "NumPy could not be compiled; its release wheel is used and the reference total is not checked"
    fi
    if ls $wheels/numpy-*.whl >/dev/null 2>&1; then
        $venv/bin/python -W ignore -m pip install -q --no-deps $wheels/numpy-*.whl
    fi
fi
if [ ! -e $venv/.test ] || [ pyproject.toml -nt $venv/.test ]; then
    tools/make_venv.sh $venv "$python" test
    touch $venv/.numpy $venv/.test
fi
TORCHLITE_CFLAGS=-O0 $venv/bin/python setup.py -q build_ext --inplace
export PYTHONPATH=$PWD
$venv/bin/python -X dev -W error $venv/bin/pytest "$@"
$venv/bin/python -X dev -W error tools/reference_total.py
