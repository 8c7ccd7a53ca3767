"""Draw docs/images/explorer.png: the page of a plate with a hot hole, as a browser shows it.

python website/explorer.py
"""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from pcarann import Fields, Mesh, PCARaNN
from pcarann.explorer.site import explorer
from pcarann.serving.app import application
from pcarann.serving.limits import Limits
from pcarann.serving.running import address, bound, configured

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "explorer.png"
SETTINGS = {"mode 1": "1.4", "mode 2": "-1.1", "mode 3": "0.8", "angle": "0.9", "temperature": "210"}


def main() -> None:
    """Fit a model, serve it, and take its picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plate.pcarann"
        _plate().save(path)
        listener, limits = bound("127.0.0.1", 0), Limits()
        server = uvicorn.Server(configured(application([path], additions=[explorer()], limits=limits), limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                sleep(0.01)
            _photograph(address(listener), Path(folder) / "page.png")
        finally:
            server.should_exit = True
            thread.join()
        with Image.open(Path(folder) / "page.png") as image:
            image.thumbnail((1200, 1200))
            image.convert("RGB").save(PICTURE, optimize=True)


def _plate() -> PCARaNN:
    sys.path.insert(0, str(ROOT / "examples"))
    import plate

    inputs, outputs = plate.sample(400, 0, level=1)
    train, rest = ([{k: v[rows] for k, v in side.items()} for side in (inputs, outputs)] for rows in _halves(300))
    mesh = Mesh(plate.mesh(1).p.T, plate.mesh(1).t.T)
    return PCARaNN(regressor="kernel", n_members=4, fields=Fields(mesh=mesh)).fit(*train).calibrate(*rest)


def _halves(first: int) -> tuple[slice, slice]:
    return slice(0, first), slice(first, None)


def _photograph(site: str, picture: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1360, "height": 900})
        page.goto(site)
        page.wait_for_selector("#field[data-state=shown]")
        for label, value in SETTINGS.items():
            page.get_by_label(f"{label}, as a number").fill(value)
        page.wait_for_timeout(1500)  # until sliders were compared, too
        page.locator("h1").click()  # no field has the focus
        box = page.locator("#canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 0.58 * box["width"], box["y"] + 0.3 * box["height"])
        page.wait_for_timeout(200)
        page.screenshot(path=picture, full_page=True)
        chromium.close()


if __name__ == "__main__":
    main()
