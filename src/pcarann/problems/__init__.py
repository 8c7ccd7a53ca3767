"""Data: files of input and output fields."""

from pcarann.problems.readers import DataFileError, read

__all__ = ["DataFileError", "read"]
