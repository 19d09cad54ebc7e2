"""Sequences of different lengths in one batch, without padding between them.

Packed data lies time step by time step: first the first elements of all sequences, then the second ones of those that
have one, and so on. Sequences are sorted by falling length, so the rows of a step are the first of the step before.
"""

from collections import namedtuple

from torchlite import _C
from torchlite.autograd import Variable

__all__ = ["PackedSequence", "pack_padded_sequence", "pad_packed_sequence"]

_cat = _C._find_op("cat")


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes"])):
    """A packed batch: `data`, a Variable (sum of lengths, ...), and `batch_sizes`, how many rows each step has."""

    __slots__ = ()


def pack_padded_sequence(input, lengths, batch_first=False):
    """Packs a padded batch `input`, a Variable (T, B, ...) or with `batch_first` (B, T, ...).

    `lengths`: a list of B ints, falling, each at most T. ValueError if it isn't. Returns a PackedSequence.
    """
    lengths = [int(length) for length in lengths]
    if not lengths or lengths[-1] <= 0 or min(lengths) <= 0:
        raise ValueError(f"pack_padded_sequence: lengths have to be positive, but are {lengths}")
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.size(0), input.size(1)
    if len(lengths) != batch:
        raise ValueError(
            f"pack_padded_sequence: expected {batch} lengths for input of {batch} sequences, but got {len(lengths)}"
        )
    if any(a < b for a, b in zip(lengths, lengths[1:], strict=False)):
        raise ValueError(f"pack_padded_sequence: lengths have to be sorted in decreasing order, but are {lengths}")
    if lengths[0] > steps:
        raise ValueError(f"pack_padded_sequence: a length of {lengths[0]} is more than the {steps} steps of input")
    batch_sizes = [sum(length > t for length in lengths) for t in range(lengths[0])]
    return PackedSequence(_cat([input[t, :size] for t, size in enumerate(batch_sizes)], 0), batch_sizes)


def pad_packed_sequence(sequence, batch_first=False):
    """Undoes `pack_padded_sequence`: a Variable (T, B, ...), zero after each end, and the list of lengths."""
    data, batch_sizes = sequence
    batch, rest = batch_sizes[0], tuple(data.size())[1:]
    steps, offset = [], 0
    for size in batch_sizes:
        step = data[offset : offset + size]
        if size < batch:
            step = _cat([step, Variable(data.data.new(batch - size, *rest).zero_())], 0)
        steps.append(step.unsqueeze(0))
        offset += size
    lengths = [sum(size > i for size in batch_sizes) for i in range(batch)]
    output = _cat(steps, 0)
    return output.transpose(0, 1) if batch_first else output, lengths
