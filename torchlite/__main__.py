"""``python -m torchlite``: see the text below."""

from __future__ import annotations

import sys

USAGE = """\
usage: python -m torchlite run SCRIPT [ARGUMENT ...]
       python -m torchlite run -m MODULE [ARGUMENT ...]
       python -m torchlite run -c CODE [ARGUMENT ...]
       python -m torchlite --version

`run` executes a program that was written for the PyTorch of June 2017 as `python` would, with torchlite under the name
`torch`: `import torch`, `from torch.autograd import Variable` and so on give torchlite, even where a PyTorch is
installed. In the program and the modules beside it `async` may be a name, as in `tensor.cuda(async=True)`. Names that
Python and NumPy have dropped since (`collections.Iterable`, `numpy.float`) exist.

A program that can be changed needs none of this: `import torchlite as torch`.
"""


def main(arguments: list[str]) -> int | None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        from .version import __version__

        print(f"torchlite {__version__}")
        return 0
    command, *rest = arguments
    if command != "run":
        print(f"torchlite: unknown command {command!r}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    if rest and rest[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    from .compat import run

    kind = rest[0] if rest and rest[0] in ("-m", "-c") else ""
    operands = rest[1:] if kind else rest
    if not operands or (not kind and operands[0].startswith("-")):
        wanted = {"-m": "a module", "-c": "code"}.get(kind, "a script")
        print(f"torchlite run: expected {wanted}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    {"": run.run_script, "-m": run.run_module, "-c": run.run_code}[kind](operands[0], operands[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
