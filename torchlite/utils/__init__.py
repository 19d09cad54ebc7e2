"""Helpers that the rest of the package shares; see `torchlite.utils.hooks`."""
