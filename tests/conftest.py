"""Loads the plugins that the whole suite runs under."""

pytest_plugins = ["leak_harness"]
