"""Builds `torchlite._C` from csrc/: every source compiled side by side, and only what changed."""

import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
FLAGS = ["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
         "-Wno-missing-field-initializers", "-Wno-invalid-offsetof", "-fno-math-errno", "-MMD"]
# Without the symbol table, a fifth of the file. TORCHLITE_LDFLAGS="" keeps it, for profilers.
LINK_FLAGS = "-Wl,-s" if sys.platform == "linux" else ""


def newer_than(target, sources):
    """True if `target` exists and no file of `sources` changed after it was written."""
    try:
        written = os.stat(target).st_mtime
        return all(os.stat(s).st_mtime <= written for s in sources)
    except FileNotFoundError:
        return False


def dependencies(obj):
    """The files that `obj` was compiled from, as the compiler noted them beside it."""
    try:
        text = Path(obj).with_suffix(".d").read_text()
    except FileNotFoundError:
        return [obj + ".missing"]
    return shlex.split(text.split(":", 1)[1].replace("\\\n", " "))


class ParallelBuild(build_ext):
    """Compiles the sources of an extension concurrently and skips objects that are up to date."""

    def build_extension(self, ext):
        compiler = self.compiler

        def compile(sources, output_dir=None, macros=None, include_dirs=None, debug=0,
                    extra_preargs=None, extra_postargs=None, depends=None):
            macros, objects, post, pp_opts, build = compiler._setup_compile(
                output_dir, macros, include_dirs, sources, depends, extra_postargs)
            cc_args = compiler._get_cc_args(pp_opts, debug, extra_preargs)

            def one(obj):
                src, suffix = build[obj]
                if not newer_than(obj, dependencies(obj)):
                    compiler._compile(obj, src, suffix, cc_args, post, pp_opts)

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(one, sorted(build, key=lambda o: -os.stat(build[o][0]).st_size)))
            return objects

        compiler.compile = compile
        super().build_extension(ext)


setup(
    ext_modules=[Extension(
        "torchlite._C",
        sources=sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("csrc/**/*.cpp")),
        # Any header newer than the extension sends the build to the objects, which know which headers are theirs.
        depends=sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("csrc/**/*.h")),
        include_dirs=["csrc", numpy.get_include()],
        extra_compile_args=FLAGS + shlex.split(os.environ.get("TORCHLITE_CFLAGS", "")),
        extra_link_args=shlex.split(os.environ.get("TORCHLITE_LDFLAGS", LINK_FLAGS)),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")],
        language="c++",
    )],
    cmdclass={"build_ext": ParallelBuild},
)
