"""The in-place forms of the views: t_, transpose_, unsqueeze_, squeeze_."""

import numpy as np
import pytest

from torchlite import FloatTensor


@pytest.mark.parametrize("call, size, stride", [
    (lambda t: t.t_(), (3, 2), (1, 3)), (lambda t: t.transpose_(0, -1), (3, 2), (1, 3)),
    (lambda t: t.unsqueeze_(0), (1, 2, 3), None), (lambda t: t.unsqueeze_(0).squeeze_(), (2, 3), (3, 1)),
    (lambda t: t.unsqueeze_(1).squeeze_(1), (2, 3), (3, 1)),
])
def test_views_in_place(call, size, stride):
    t = FloatTensor([[1, 2, 3], [4, 5, 6]])
    a, address = t.numpy().copy(), t.data_ptr()
    assert call(t) is t and t.size() == size and t.data_ptr() == address
    assert stride is None or t.stride() == stride
    assert sorted(np.asarray(t).ravel().tolist()) == a.ravel().tolist()
