"""The module classes; `torchlite.nn` has them all."""

from torchlite.nn.modules.activation import ELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, Softmax, Softplus, Tanh
from torchlite.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from torchlite.nn.modules.container import Container, ModuleList, ParameterList, Sequential
from torchlite.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from torchlite.nn.modules.dropout import Dropout
from torchlite.nn.modules.linear import Linear
from torchlite.nn.modules.loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from torchlite.nn.modules.module import Module
from torchlite.nn.modules.pooling import AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d
from torchlite.nn.modules.rnn import GRU, LSTM, RNN
from torchlite.nn.modules.rnn_cell import GRUCell, LSTMCell, RNNCell
from torchlite.nn.modules.sparse import Embedding

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Container",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
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
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
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
