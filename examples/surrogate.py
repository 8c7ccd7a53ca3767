"""From a file of simulations on a mesh to a surrogate with error bars, and to a VTU file for ParaView.

python examples/plate.py --count 300 && python examples/surrogate.py plate.npz displacement
python examples/block.py --count 300 && python examples/surrogate.py block.npz temperature
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import pcarann
from pcarann.metrics import coverage, relative_l2
from pcarann.problems.meshes import write_mesh_samples


def main(path: Path, wanted: str, budget: float = 60.0) -> tuple[float, float]:
    """Fit to 70 % of the samples, calibrate on 15 %, write what is found beside the file; return error and coverage."""
    data = np.load(path)
    mesh = pcarann.Mesh(data["points"], data["cells"])
    inputs = {key.removeprefix("input_"): data[key] for key in data.files if key.startswith("input_")}
    outputs = data[f"output_{wanted}"]
    ends = np.cumsum([0, *(np.array([0.7, 0.15]) * len(outputs)).astype(int), 10**9])
    train, calibration, test = (
        ({name: part[a:b] for name, part in inputs.items()}, outputs[a:b]) for a, b in pairwise(ends)
    )
    model = pcarann.auto(*train, mesh=mesh, budget=budget).calibrate(*calibration)
    print(model.auto_report_)
    band = model.predict_interval(test[0], alpha=0.1)
    error, covered = relative_l2(band.mean, test[1]), coverage(band.lower, band.upper, test[1])
    print(f"error {error:.2%}, coverage {covered:.1%} of 90 %")
    model.draw(*test, path=path.with_name("surrogate.png"))
    model.save(path.with_suffix(".pcarann"))
    fields = {name: part[:3] for name, part in vars(band).items()}
    print(*write_mesh_samples(path.with_suffix(".vtu"), mesh.points, mesh.cells, fields))
    return error, covered


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3], *map(float, sys.argv[3:]))
