"""The compute kernels, checked from C++: accuracy, reproducibility, and the thread pool."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "csrc/tensor/kernels"
USED = ["simd", "parallel", "random", "reduce", "softmax", "vecmath"]
COMPILER = shlex.split(os.environ.get("CXX", "g++"))


@pytest.mark.no_leak_check(reason="the work is done in a child process")
@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="needs a C++ compiler")
def test_kernels_are_accurate_and_give_the_same_bits_everywhere(tmp_path):
    program = tmp_path / "check"
    sources = [Path(__file__).with_name("check.cpp"), *(KERNELS / f"{name}.cpp" for name in USED)]
    flags = ["-std=c++20", "-O2", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'csrc'}"]
    if os.environ.get("TORCHLITE_SANITIZED"):
        flags += ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    objects = [tmp_path / f"{source.stem}.o" for source in sources]
    jobs = [subprocess.Popen([*COMPILER, *flags, "-c", str(source), "-o", str(obj)], env=environment)
            for source, obj in zip(sources, objects, strict=True)]
    assert [job.wait() for job in jobs] == [0] * len(jobs)
    subprocess.run([*COMPILER, *flags, *map(str, objects), "-o", str(program)], env=environment, check=True)
    result = subprocess.run([str(program)], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
