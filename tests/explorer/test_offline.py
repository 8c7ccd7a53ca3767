import warnings

import numpy as np
import pytest
from sklearn.base import clone

from browsers import node
from conftest import periodic_pairs, smooth_pairs, table
from meshes import triangles
from pcarann import Channels, Fields, Kernel, Marching, PCARaNN, Staged
from pcarann.explorer.offline import offline, probes
from pcarann.explorer.portrait import portrait
from pcarann.export.signature import Signature
from pcarann.symmetry.generators import Symmetry

SMALL = dict(n_components=5, widths=(30, 20), n_members=3, scales="energy")
CIRCLE = Symmetry.shifts(-1) * Symmetry.reflection(-1, periodic=True)
NAMES = ("c0", "__proto__", "</script>")
"""Parts may be called as things inside are, or as nobody should"""


def fields(n):
    return *smooth_pairs(n, seed=2)[:], {}


def on_a_mesh(n):
    mesh = triangles(6)
    rng = np.random.default_rng(0)
    p = rng.uniform(-1, 1, (n, 2))
    x, y = mesh.points.T
    return p, np.sin(2 * p[:, :1] * x) + p[:, 1:] * y**2, {"fields": Fields(mesh=mesh)}


def parts(n):
    pairs, numbers = smooth_pairs(n, seed=2), np.random.default_rng(0).uniform(1, 2, n)
    fields = {NAMES[2]: pairs.outputs * numbers[:, None, None], "v0": pairs.outputs[:, 0] - numbers[:, None]}
    return {NAMES[0]: pairs.inputs, NAMES[1]: numbers}, fields, {}


def with_holes(n):
    pairs = smooth_pairs(n, seed=2)
    a, u = pairs.inputs.copy(), pairs.outputs.copy()
    a[:, 7:9], u[:, 1, 30:] = np.nan, np.nan
    return a, u, {}


def with_channels(n):
    a, u = smooth_pairs(n, seed=2)[:]
    return np.stack([a, a[:, ::-1] ** 2], axis=1), u, {}


def waves(n):
    """Waves that run around a circle, a little lower at each step: two snapshots, and six that follow."""
    rng = np.random.default_rng(0)
    x, phase, times = 2 * np.pi * np.arange(16) / 16, rng.uniform(0, 6, (n, 1, 1)), np.arange(8)[None, :, None]
    heights = rng.uniform(0.5, 1, (n, 1, 1))
    found = heights * 0.95**times * np.sin(x + phase + 0.3 * times) + 0.2 * np.cos(2 * (x + 0.3 * times))
    return found[:, :1], found[:, 1:5], {}


def on_a_square(n):
    a = np.random.default_rng(0).normal(size=(n, 8, 8)).cumsum(axis=1).cumsum(axis=2)
    return a, np.tanh(a) + 0.1 * np.roll(a, 1, axis=1), {}


CASES = {
    "random layers": (fields, {}),
    "linear term": (fields, dict(linear=True, relevance="learned")),
    "kernel": (fields, dict(regressor=Kernel(2.0), linear=True)),
    "symmetry": (lambda n: (*periodic_pairs(n)[:], {}), dict(symmetry=CIRCLE)),
    "channels": (with_channels, dict(fields=Fields(channels=True))),
    "table": (lambda n: (*table(n), {}), {}),
    "mesh": (on_a_mesh, {}),
    "parts": (parts, {}),
    "holes": (with_holes, {}),
    "one member": (fields, dict(n_members=1)),
}
IN_SPACE_AND_TIME = {
    "stages": (on_a_square, Staged(n_features=8, n_members=2, n_stages=2, channels=Channels())),
    "stages that march": (waves, Marching(Staged("mean", n_features=8, n_stages=1, channels=Channels()), choose=False)),
    "a flow": (waves, Marching(PCARaNN(**SMALL), choose=False)),
}


def fitted(case):
    data, options = (CASES | IN_SPACE_AND_TIME)[case]
    X, y, more = data(160)
    if isinstance(options, Staged | Marching):
        return clone(options).fit(X[:60], y[:60]).calibrate(X[60:100], y[60:100])
    rows = lambda of, where: {k: v[where] for k, v in of.items()} if isinstance(of, dict) else of[where]  # noqa: E731
    model = PCARaNN(**{**SMALL, **options, **more}).fit(rows(X, slice(100)), rows(y, slice(100)))
    return model.calibrate(rows(X, slice(100, None)), rows(y, slice(100, None)))


def answered(documents, inputs, alpha):
    """What pages with these documents say to their inputs, {name: values}, one sample at a time."""
    code = """
        import { localModel } from "./local.js";
        const tensor = ([name, { shape, data }]) => [name, { shape, data: data.map(Number) }]; // JSON knows no NaN
        const found = [];
        for (const { document, samples, alpha } of given) {
          const model = localModel({}, document);
          const answers = [];
          for (const inputs of samples.map((one) => Object.fromEntries(one.map(tensor))))
            answers.push(Object.entries(await model.infer(inputs, { alpha })));
          found.push(answers.map((one) => one.map(([name, { shape, data }]) => [name, shape, [...data].map(String)])));
        }
        console.log(JSON.stringify(found));
    """
    given = []
    for document, tensors in zip(documents, inputs, strict=True):
        count = len(next(iter(tensors.values())))
        samples = [
            [[k, {"shape": [1, *v.shape[1:]], "data": [str(x) for x in v[i].ravel()]}] for k, v in tensors.items()]
            for i in range(count)
        ]
        given.append({"document": document, "samples": samples, "alpha": alpha})
    found = node(code, given)
    return [
        {
            name: np.concatenate([np.array([float(x) for x in one[i][2]]).reshape(one[i][1]) for one in answers])
            for i, (name, *_) in enumerate(answers[0])
        }
        for answers in found
    ]


def expected(model, tensors, alpha):
    signature = Signature.of(model)
    opened, how = signature.opened(tensors)
    band = model.predict_interval(opened, alpha, **how)
    wanted = signature.by_name(band.mean) | signature.by_name(band.std, ".std")
    wanted |= signature.by_name(band.lower, ".lower") | signature.by_name(band.upper, ".upper")
    if isinstance(model, Staged) or isinstance(getattr(model, "model", None), Staged):
        return wanted  # stages know no novelty
    return wanted | {"novelty": model.novelty(opened, **how).p_value}


def assert_close(found, wanted):
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        rows, other = (one.reshape(len(one), -1) for one in (np.asarray(values), found[name]))
        assert np.array_equal(np.isnan(rows), np.isnan(other)), name
        scale = np.nanmax(np.abs(rows), axis=1, keepdims=True)
        assert np.nanmax(np.abs(other - rows) / np.where(scale > 0, scale, 1)) < 1e-6, name


def compared(cases):
    """For each case what its page says, and what its model predicts."""
    with warnings.catch_warnings(action="ignore"):  # small fits, and inputs outside the training data
        models = {case: fitted(case) for case in cases}
        inputs = [{name: values[:4] for name, values in probes(model).items()} for model in models.values()]
        wanted = [expected(model, tensors, 0.2) for model, tensors in zip(models.values(), inputs, strict=True)]
    documents = [offline(model, portrait(model)["alphas"]) for model in models.values()]
    found = answered(documents, inputs, 0.2)
    return dict(zip(models, zip(found, wanted, strict=True), strict=True))


@pytest.fixture(scope="module")
def latent_models():
    return compared(CASES)


@pytest.fixture(scope="module")
def stages_and_flows():
    return compared(IN_SPACE_AND_TIME)


@pytest.mark.parametrize("case", CASES)
def test_a_page_says_what_a_model_predicts(latent_models, case):
    assert_close(*latent_models[case])


@pytest.mark.parametrize("case", IN_SPACE_AND_TIME)
def test_a_page_says_what_stages_and_flows_predict(stages_and_flows, case):
    assert_close(*stages_and_flows[case])


def test_every_level_has_intervals_of_its_own():
    model = fitted("table")
    document, inputs = offline(model, [0.5, 0.1]), probes(model)
    assert set(document["outputs"]) == {"0.5", "0.1"}
    for alpha in (0.5, 0.1):
        (found,) = answered([document], [inputs], alpha)
        assert_close(found, expected(model, inputs, alpha))


def test_random_weights_are_not_in_a_document():
    document = offline(fitted("random layers"))
    drawn = [one["shape"] for one in document["graph"]["constants"].values() if "draws" in one]
    assert drawn == [(3, 30, 5), (3, 20, 30)]


def test_an_output_that_is_not_there_is_refused_by_name():
    document = offline(PCARaNN(**SMALL).fit(*table(40)))
    code = """
        import { localModel } from "./local.js";
        const inputs = { inputs: { shape: [1, 3], data: [0, 0, 0] } };
        const sentences = [];
        for (const outputs of [["outputs.lower"], ["outputs"]])
          await localModel({}, given).infer(inputs, { outputs }).catch((error) => sentences.push(error.message));
        console.log(JSON.stringify(sentences));
    """
    assert node(code, document) == ["This page has no output outputs.lower."]
