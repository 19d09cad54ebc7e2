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
    objects = [tmp_path / f"{source.stem}.o" for source in sources]
    jobs = [subprocess.Popen([*COMPILER, *flags, "-c", str(source), "-o", str(obj)])
            for source, obj in zip(sources, objects, strict=True)]
    assert [job.wait() for job in jobs] == [0] * len(jobs)
    subprocess.run([*COMPILER, "-pthread", *map(str, objects), "-o", str(program)], check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
