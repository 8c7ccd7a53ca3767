"""Run all examples in full, and put the picture of each into docs/gallery.

python website/gallery.py [NAME ...]      those alone
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "gallery"
ARGUMENTS = {
    "plate": ["--count", "500", "--output", "{folder}"],
    "block": ["--count", "4", "--output", "{folder}"],
    "surrogate": ["{folder}/plate.npz", "displacement"],
    "onnx_client": ["{folder}/model.onnx", "{folder}/new.npz", "{folder}"],
    **{name: ["--output", "{folder}"] for name in ("active", "design", "inversion", "twin")},
}
"""What a script wants beside its name, where that is not a folder; those that others need come first"""
COMMANDS = {
    "onnx_client": [
        ["generate", "burgers", "-n", "200", "-o", "{folder}/burgers.npz"],
        ["generate", "burgers", "-n", "5", "--seed", "1", "-o", "{folder}/new.npz"],
        ["fit", "{folder}/burgers.npz", "--samples", "0:60", "--members", "5", "-o", "{folder}/model"],
        ["calibrate", "{folder}/model", "{folder}/burgers.npz", "--samples", "60:200"],
        ["export", "{folder}/model", "-o", "{folder}/model.onnx"],
    ]
}
"""Of `pcarann`, that make what a script reads"""


def main(names: list[str]) -> None:
    """Run these examples, or all."""
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")}
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for name in names or [*ARGUMENTS, *sorted(scripts - set(ARGUMENTS))]:
            arguments = [one.format(folder=folder) for one in ARGUMENTS.get(name, ["{folder}"])]
            print(f"== {name}", flush=True)
            for command in COMMANDS.get(name, []):
                words = [one.format(folder=folder) for one in command]
                subprocess.run([sys.executable, "-c", "from pcarann.cli import main; main()", *words], check=True)
            subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py", *arguments], check=True)
            shrink(Path(folder) / f"{name}.png", PICTURES / f"{name}.png")


def shrink(picture: Path, target: Path) -> None:
    """Copy a picture, at most 1200 pixels wide, with 256 colours: a fraction of its size."""
    with Image.open(picture) as image:
        image.thumbnail((1200, 1200))
        image.convert("RGB").quantize(256).save(target, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
