#!/bin/bash
# Prints the first Python >= 3.10 that can make an environment and has its headers.
for candidate in python3 python3.13 python3.12 python3.11 python3.10 \
    "$HOME"/.pyenv/versions/3.1[0-3].*/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    "$candidate" - 2>/dev/null <<'PY' && { command -v "$candidate"; exit 0; }
import os, sys, sysconfig
import ensurepip, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 10) and os.path.exists(header)))
PY
done
echo "no Python >= 3.10 with venv and its C headers was found" >&2
exit 1
