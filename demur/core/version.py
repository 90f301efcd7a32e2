"""The version of demur: known to every room."""

__version__ = "0.1.0"
