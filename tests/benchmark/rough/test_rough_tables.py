"""The table of rough inputs: means over seeds, the least error bold, dashes for what was not run."""

from pcarann.benchmark.rough.tables import rough_inputs, rough_tables
from pcarann.benchmark.text import DASH


def record(method, n_train, error, *, problem="two_valued", seed=0, place="cpu", seconds=1.0):
    return {
        "kind": "rough",
        "problem": problem,
        "method": method,
        "n_train": n_train,
        "error": error,
        "seeds": {"data": seed, "model": 0},
        "place": place,
        "seconds": seconds,
    }


RECORDS = [
    record("latent", 50, 0.2),
    record("latent", 50, 0.4, seed=1),
    record("latent", 1000, 0.05, seconds=7.0),
    record("kernel", 50, 0.35),
    record("kernel", 50, 0.27, seed=1),
    record("kernel", 1000, 0.04, seconds=3.0),
    record("fno", 1000, 0.06, place="h200", seconds=80.0),
    record("latent", 50, 0.5, problem="rough_burgers"),
]


def test_errors_are_means_over_seeds_and_times_those_of_the_most_samples():
    table = rough_inputs(RECORDS)
    assert table.header == ("Problem", "Method", "N = 50", "N = 1000", "Time CPU, s", "Time H200, s")
    assert table.rows == (
        ("Burgers, rough", "PCA–RaNN, the better of two", "5.00e-1", DASH, "1.0", DASH),
        ("Two-valued coefficient", "PCA–RaNN, the better of two", "3.00e-1", "5.00e-2", "7.0", DASH),
        ("Two-valued coefficient", "PCA + kernel ridge", "3.10e-1", "4.00e-2", "3.0", DASH),
        ("Two-valued coefficient", "FNO", DASH, "6.00e-2", DASH, "80.0"),
    )


def test_the_least_error_of_each_case_and_size_is_bold():
    assert rough_inputs(RECORDS).bold == {(0, 2), (1, 2), (2, 3)}


def test_without_records_there_is_no_table():
    assert rough_tables([]) == []
    assert [table.title for table in rough_tables(RECORDS)] == ["Rough inputs"]
