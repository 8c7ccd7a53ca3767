"""Larger than memory: the same fit on Dask arrays, block by block, on one machine or on many."""

from pcarann.scale.engine import limited
from pcarann.scale.report import ScaleReport, SideReport

__all__ = ["ScaleReport", "SideReport", "limited"]
