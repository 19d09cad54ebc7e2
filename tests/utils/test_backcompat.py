"""The switches of torchlite.utils.backcompat; tests/ops/test_pairing.py tests what they switch."""

import pytest

import torchlite
from torchlite import _C
from torchlite.utils.backcompat import broadcast_warning, keepdim_warning


@pytest.mark.parametrize("switch, state", [
    (broadcast_warning, _C._get_backcompat_broadcast_warn), (keepdim_warning, _C._get_backcompat_keepdim_warn),
])
def test_enabled_is_the_state_of_the_extension(switch, state):
    assert switch.enabled is False
    switch.enabled = True
    try:
        assert switch.enabled is True and state() is True
    finally:
        switch.enabled = False
    assert state() is False
    with pytest.raises(RuntimeError, match="expects a bool, but got str"):
        switch.enabled = "yes"


def test_the_module_is_an_attribute_of_the_package():
    assert torchlite.utils.backcompat.keepdim_warning is keepdim_warning
