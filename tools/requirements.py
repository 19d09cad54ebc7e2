"""Prints what pyproject.toml asks for, one requirement a line: the build requirements, the run-time
dependencies and the named extras. Used to fill an environment without building the package."""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: the copy that pip carries
    from pip._vendor import tomli as tomllib

config = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
project = config["project"]
wanted = config["build-system"]["requires"] + project["dependencies"]
for extra in sys.argv[1:]:
    wanted += project["optional-dependencies"][extra]
print("\n".join(dict.fromkeys(wanted)))
