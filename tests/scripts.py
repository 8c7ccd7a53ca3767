"""The scripts of examples/, as modules."""

from importlib.util import module_from_spec, spec_from_file_location

from house import ROOT


def example(name):
    """A script of examples/, under a name of its own: benchmarks/ has some of the same names."""
    spec = spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
