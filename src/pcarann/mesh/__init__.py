"""Meshes and point clouds: quadrature, slopes, harmonics and interpolation of fields at their nodes."""

from pcarann.mesh.mesh import Mesh

__all__ = ["Mesh"]
