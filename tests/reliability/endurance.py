"""What must hold after many repetitions: saves that are killed, threads that write at once, streams without an end.

Each is a function of how many times, which a test calls with few and `make fuzz` with many, and returns what it saw.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from workers import forks

from pcarann import PCARaNN, load
from pcarann.options import Adapt

__all__ = ["killed_saves", "soaked", "threaded_updates"]


def _pairs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Smooth fields in, a nonlinear response out."""
    rng, x = np.random.default_rng(seed), np.linspace(0, np.pi, 12)
    a = rng.normal(size=(n, 3)) @ np.array([np.sin(x), np.cos(x), np.sin(2 * x)])
    return a, np.tanh(a) + 0.1 * a[:, ::-1] ** 2


def _fitted(n: int = 60, **options: Any) -> PCARaNN:
    chosen = {"n_members": 2, "scales": (0.3, 0.3)} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model is small for speed
        return PCARaNN(3, (8, 6), **chosen).fit(*_pairs(n))


# Saves that are killed


def killed_saves(kills: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Kill −9 a process that saves two models over each other, at any moment, so many times."""
    path, draw, asked = folder / "model", random.Random(seed), _pairs(3, seed=9)[0]
    old, new = _fitted(), _fitted(80)
    answers = {"old": old.predict(asked), "new": new.predict(asked)}
    old.save(path)
    began = time.perf_counter()
    new.save(path)
    longest = 4 * (time.perf_counter() - began)
    found: Counter[str] = Counter()
    for _ in range(kills):
        ready, told = os.pipe()

        def saving(_: int, told: int = told) -> None:
            os.write(told, b"x")
            while True:
                new.save(path)
                old.save(path)

        process = forks(0, saving)
        os.read(ready, 1)
        time.sleep(draw.uniform(0, longest))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(ready)
        os.close(told)
        answer = load(path).predict(asked)
        found[next((name for name, one in answers.items() if np.array_equal(answer, one)), "another model")] += 1
    _quiet(folder)
    stray = sorted(name for name in os.listdir(folder) if name != path.name)
    return {"kills": kills, "loaded": dict(found), "stray_files": len(stray)}


def _quiet(folder: Path, seconds: float = 5.0) -> None:
    """Wait for helpers that outlive the process that was killed: they end what it began."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(os.listdir(folder)) > 1:
        time.sleep(0.05)


# Threads


def threaded_updates(updates: int, threads: int = 2) -> dict[str, Any]:
    """So many updates in each of some threads, beside one that calibrates and one that predicts."""
    model = _fitted()
    new, fresh = _pairs(threads * updates, seed=2), _pairs(40, seed=3)
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    done = threading.Event()

    def updating(lane: int) -> None:
        for i in range(lane, threads * updates, threads):
            model.partial_fit(new[0][i : i + 1], new[1][i : i + 1])

    def calibrating() -> None:
        while not done.wait(0.02):  # so that updates come between
            model.calibrate(*fresh)
            seen["calibrations"] += 1

    def predicting() -> None:
        last = 0
        while not done.wait(0.01):
            state = model.fitted_
            try:
                band = model.predict_interval(fresh[0], alpha=0.1)
            except NotFittedError:  # the calibration belongs to an older state, as it says
                seen["bands refused as stale"] += 1
                continue
            seen["bands"] += 1
            faults["torn band"] += not (np.isfinite([band.lower, band.upper]).all() and (band.lower < band.upper).all())
            faults["older state"] += state.n_adapted < last
            last = state.n_adapted

    def watched(work: Any, *args: Any) -> None:
        try:
            work(*args)
        except Exception as error:
            faults[f"{type(error).__name__}: {str(error)[:100]}"] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.calibrate(*_pairs(40, seed=1))
        writers = [threading.Thread(target=watched, args=(updating, lane)) for lane in range(threads)]
        others = [threading.Thread(target=watched, args=(work,)) for work in (calibrating, predicting)]
        for one in (*writers, *others):
            one.start()
        for one in writers:
            one.join()
        done.set()
        for one in others:
            one.join()
        single = _fitted().partial_fit(*new)
        difference = _difference(model.predict(fresh[0]), single.predict(fresh[0]))
    learned = model.fitted_.n_adapted
    return {
        "threads": threads,
        "updates": threads * updates,
        "learned": learned,
        "lost": threads * updates - learned,
        "difference_from_one_thread": difference,
        "faults": sum(faults.values()),
        "said": {name: count for name, count in faults.items() if count},
        **seen,
    }


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


# A stream without an end


def soaked(updates: int, checks: int = 10, forgetting: float = 1.0) -> dict[str, Any]:
    """So many updates of one sample each: the covariance, the drift from a fit to all at once, and memory."""
    model = _fitted(n_members=1, adapt=Adapt(forgetting=forgetting))
    new, asked = _pairs(updates, seed=4), _pairs(50, seed=5)[0]
    rows, every = [], max(updates // checks, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(updates):
            model.partial_fit(new[0][i : i + 1], new[1][i : i + 1])
            if (i + 1) % every == 0:
                rows.append({"updates": i + 1, "resident_mb": _resident(), **_soundness(model)})
        whole = _fitted(n_members=1, adapt=Adapt(forgetting=forgetting)).partial_fit(*new)
    return {
        "updates": updates,
        "forgetting": forgetting,
        "drift_from_all_at_once": _difference(model.predict(asked), whole.predict(asked)),
        "checks": rows,
    }


def _soundness(model: PCARaNN) -> dict[str, float]:
    """How far from symmetric and positive the covariances are."""
    found = [np.asarray(one.covariance) for one in model.fitted_.adaptation.learners]
    return {
        "asymmetry": max(float(np.abs(P - P.T).max() / np.abs(P).max()) for P in found),
        "smallest_eigenvalue": min(float(np.linalg.eigvalsh((P + P.T) / 2).min()) for P in found),
    }


def _resident() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
