#!/bin/bash
# Lists the C++ files that clang-format keeps.
cd "$(dirname "$0")/.." && find csrc tests torchlite/include -name '*.cpp' -o -name '*.h' 2>/dev/null | sort
