"""Loads the plugins and the settings that the whole suite runs under."""

from hypothesis import settings

pytest_plugins = ["leak_harness"]

# Deadlines measure the machine, and a database would make runs depend on each other.
settings.register_profile("torchlite", deadline=None, database=None, max_examples=50)
settings.load_profile("torchlite")


def pytest_addoption(parser):
    parser.addoption("--accept", action="store_true", help="write the golden files of tests/ir anew")
