"""From a file of simulations on a mesh to a surrogate with error bars, and to a VTU file for ParaView.

python examples/plate.py --count 300 && python examples/surrogate.py plate.npz displacement
python examples/block.py --count 300 && python examples/surrogate.py block.npz temperature
"""

import sys
from itertools import pairwise

import numpy as np

import pcarann
from pcarann.metrics import coverage, relative_l2
from pcarann.problems.meshes import write_mesh_samples

path, wanted = sys.argv[1:]
data = np.load(path)
mesh = pcarann.Mesh(data["points"], data["cells"])
inputs = {key.removeprefix("input_"): data[key] for key in data.files if key.startswith("input_")}
outputs = data[f"output_{wanted}"]
ends = np.cumsum([0, *(np.array([0.7, 0.15]) * len(outputs)).astype(int), 10**9])
train, calibration, test = (
    ({name: part[a:b] for name, part in inputs.items()}, outputs[a:b]) for a, b in pairwise(ends)
)
model = pcarann.auto(*train, mesh=mesh, budget=60).calibrate(*calibration)
print(model.auto_report_)
band = model.predict_interval(test[0], alpha=0.1)
print(f"error {relative_l2(band.mean, test[1]):.2%}, coverage {coverage(band.lower, band.upper, test[1]):.1%} of 90 %")
model.draw(*test, path=path.replace(".npz", ".png"))
model.save(path.replace(".npz", ".pcarann"))
fields = {name: part[:3] for name, part in vars(band).items()}
print(*write_mesh_samples(path.replace(".npz", ".vtu"), mesh.points, mesh.cells, fields))
