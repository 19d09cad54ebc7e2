"""The model: embedding, dropout, a recurrent network, dropout, and a linear layer over the vocabulary."""

from __future__ import annotations

from typing import Any

from torchlite import nn
from torchlite.autograd import Variable


class RNNModel(nn.Module):
    """Maps words ``(length, batch)`` and a hidden state to scores ``(length * batch, words)`` and the next state.

    ``tied`` uses one matrix for the embedding and the decoder, and needs ``emsize == nhid``.
    """

    def __init__(self, rnn_type: str, words: int, emsize: int, nhid: int, nlayers: int, dropout: float, tied: bool):
        super().__init__()
        if tied and emsize != nhid:
            raise ValueError(f"tied weights need emsize equal to nhid, but got {emsize} and {nhid}")
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, emsize)
        between = dropout if nlayers > 1 else 0
        if rnn_type in ("LSTM", "GRU"):
            self.rnn = getattr(nn, rnn_type)(emsize, nhid, nlayers, dropout=between)
        else:
            self.rnn = nn.RNN(emsize, nhid, nlayers, nonlinearity=rnn_type[4:].lower(), dropout=between)
        self.decoder = nn.Linear(nhid, words)
        if tied:
            self.decoder.weight = self.encoder.weight
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers
        self.encoder.weight.data.uniform_(-0.1, 0.1)
        self.decoder.weight.data.uniform_(-0.1, 0.1)
        self.decoder.bias.data.fill_(0)

    def forward(self, words: Variable, hidden: Any) -> tuple[Variable, Any]:
        output, hidden = self.rnn(self.drop(self.encoder(words)), hidden)
        length, batch, nhid = output.size()
        return self.decoder(self.drop(output).view(length * batch, nhid)), hidden

    def init_hidden(self, batch_size: int, volatile: bool = False) -> Any:
        """The state before the first word: zeros."""
        data = self.decoder.bias.data

        def zeros() -> Variable:
            return Variable(data.new(self.nlayers, batch_size, self.nhid).zero_(), volatile=volatile)

        return (zeros(), zeros()) if self.rnn_type == "LSTM" else zeros()


def detach(hidden: Any) -> Any:
    """The same state without its history, where truncated backpropagation ends."""
    return tuple(detach(h) for h in hidden) if isinstance(hidden, tuple) else Variable(hidden.data)
