"""What can take part in the loop of a Trainer."""

from .logger import Logger
from .monitor import Monitor
from .monitors import AccuracyMonitor, LossMonitor, ProgressMonitor, TimeMonitor
from .plugin import Plugin

__all__ = ["AccuracyMonitor", "Logger", "LossMonitor", "Monitor", "Plugin", "ProgressMonitor", "TimeMonitor"]
