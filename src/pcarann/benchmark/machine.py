"""On which machine, with which versions and from which sources something was measured."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["gpu_name", "machine_facts", "package_version"]


def machine_facts(device: str | None) -> dict[str, Any]:
    """Processor, accelerator, versions and sources of this run."""
    packages = ("pcarann", "numpy", "scipy", "scikit-learn")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "accelerator": None if device in (None, "cpu") else gpu_name(device),
        "python": platform.python_version(),
        "versions": {name: package_version(name) for name in packages},
        "commit": _commit(),
        "sources": _digest_of_sources(),
    }


def package_version(package: str) -> str:
    """Version of a package that is installed, or that it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _digest_of_sources() -> str:
    """Identify the code where there is no repository: SHA-256 over the package's modules."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def gpu_name(device: str | None) -> str:
    """Name of a CUDA device, without its maker's."""
    import torch

    return str(torch.cuda.get_device_name(device)).removeprefix("NVIDIA ")
