"""The module classes; `torchlite.nn` has them all."""

from torchlite.nn.modules.activation import ELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, Softmax, Softplus, Tanh
from torchlite.nn.modules.container import Container, ModuleList, ParameterList, Sequential
from torchlite.nn.modules.conv import Conv2d, MaxPool2d
from torchlite.nn.modules.dropout import Dropout
from torchlite.nn.modules.linear import Linear
from torchlite.nn.modules.loss import CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from torchlite.nn.modules.module import Module
from torchlite.nn.modules.rnn import GRU, LSTM, RNN
from torchlite.nn.modules.rnn_cell import GRUCell, LSTMCell, RNNCell
from torchlite.nn.modules.sparse import Embedding

__all__ = [
    "Container",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "ELU",
    "Embedding",
    "GRU",
    "GRUCell",
    "L1Loss",
    "LSTM",
    "LSTMCell",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "NLLLoss",
    "ParameterList",
    "RNN",
    "RNNCell",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
]
