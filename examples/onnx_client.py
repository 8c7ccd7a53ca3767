"""A surrogate without `pcarann`: an ONNX file is evaluated with onnxruntime and NumPy alone.

`pcarann export model.pcarann -o model.onnx` wrote the file. Its metadata tell what goes in and what comes out; the
first axis of all tensors counts samples.

    python examples/onnx_client.py MODEL.onnx INPUTS.npz [FOLDER]       with FOLDER writes onnx_client.png there

INPUTS.npz holds an array (samples, …) for every input, under its name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Arrays = dict[str, np.ndarray[Any, Any]]


class Surrogate:
    """An ONNX file that pcarann wrote."""

    def __init__(self, path: Path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        metadata = self.session.get_modelmeta().custom_metadata_map
        self.about = {key.removeprefix("pcarann."): json.loads(text) for key, text in metadata.items()}

    def __call__(self, arrays: Arrays) -> Arrays:
        """All outputs for inputs by name."""
        names = [one.name for one in self.session.get_outputs()]
        given = {one["name"]: arrays[one["name"]].astype(self.about["precision"]) for one in self.about["inputs"]}
        return dict(zip(names, self.session.run(names, given), strict=True))


def main(model: Path, inputs: Path, folder: Path | None = None) -> Arrays:
    """Predict all samples, and print the first of them."""
    surrogate = Surrogate(model)
    about = surrogate.about
    print(f"{about['kind']} by pcarann {about['version']}, {about['precision']}, level {about['level']}")
    with np.load(inputs) as arrays:
        if missing := [one["name"] for one in about["inputs"] if one["name"] not in arrays]:
            sys.exit(f"{inputs} has no array {', '.join(missing)}: {', '.join(arrays)}.")
        found = surrogate(dict(arrays))
    for output in about["outputs"]:
        name, unit = output["name"], output.get("attrs", {}).get("units", "")
        unit = unit and f"{unit} "
        mean, half = found[name][0], half_width(found, name)[0]
        at = np.unravel_index(np.argmax(half), half.shape)
        print(f"{name}: {mean[at]:.5g} ± {half[at]:.2g} {unit}where it is least certain, index {tuple(map(int, at))}")
    if "novelty" in found:
        print(f"p-value of the input among those of the training: {found['novelty'][0]:.2g}")
    if folder is not None:
        draw(folder / "onnx_client.png", found, about)
    return found


def half_width(found: Arrays, name: str) -> np.ndarray[Any, Any]:
    """Of the interval where the model is calibrated, else twice the standard deviation."""
    if f"{name}.upper" not in found:
        return 2 * found[f"{name}.std"]
    return (found[f"{name}.upper"] - found[f"{name}.lower"]) / 2


def draw(path: Path, found: Arrays, about: dict[str, Any]) -> None:
    """The last line of the first output of the first sample with its interval, and the half-width of that."""
    from matplotlib.figure import Figure

    output = about["outputs"][0]
    name, points = output["name"], output["shape"][-1]
    mean, half = (part[0].reshape(-1, points)[-1] for part in (found[name], half_width(found, name)))
    x = output.get("coords", {}).get((output.get("dims") or ["x"])[-1], np.linspace(0, 1, points))
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.fill_between(x, mean - half, mean + half, alpha=0.35, label="its interval", linewidth=0)
    left.plot(x, mean, label=name)
    left.legend(frameon=False)
    right.plot(x, half, color="tab:orange")
    right.set_title("half-width" if about["level"] is None else f"half-width, level {about['level']}")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
