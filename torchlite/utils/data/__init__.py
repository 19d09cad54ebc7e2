"""Datasets, samplers and the loader that makes batches of them."""

from .dataloader import DataLoader, default_collate
from .dataset import ConcatDataset, Dataset, TensorDataset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "TensorDataset", "default_collate"]
