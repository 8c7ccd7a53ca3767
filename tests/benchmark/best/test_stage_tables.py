"""Tables of stages, from made-up records."""

from pcarann.benchmark.best.stage_tables import far_table, stage_changes, stages_table


def run(error, seed=0, change=None, n_train=1000, place="cpu", **others):
    return {
        "kind": "stages",
        "problem": "darcy",
        "place": place,
        "change": change,
        "n_train": n_train,
        "noise": 0.0,
        "sizes": [1000, 300, 200],
        "seeds": {"data": seed, "model": 0},
        "error": error,
        "seconds": 2.0,
        "stages": [[1e-3, 0.1], [1e-4, 0.05]],
        **others,
    }


def test_errors_are_means_over_seeds_with_their_range():
    table = stages_table([run(0.01), run(0.02, seed=1), run(0.05, n_train=100)])
    first, few = table.rows
    assert first[:6] == ("Darcy", "–", "1000", "1.50e-2", "1.00e-2 – 2.00e-2", "2")
    assert few[2:6] == ("100", "5.00e-2", "–", "1")


def test_changes_other_than_the_symmetry_are_not_among_them():
    table = stages_table([run(0.01), run(0.03, change="one stage"), run(0.02, change="without symmetry")])
    assert [row[1] for row in table.rows] == ["–", "without symmetry"]


def test_a_change_stands_beside_the_run_on_the_same_seed_and_machine():
    records = [run(0.01), run(0.02, place="h200"), run(0.03, change="one stage", place="h200")]
    table = stage_changes(records)
    assert [row[:5] for row in table.rows] == [
        ("Darcy", "none", "1.00e-2", "1 ×", "2"),
        ("Darcy", "one stage", "3.00e-2", "1.5 ×", "2"),
    ]


def test_without_changes_there_is_no_table_of_them():
    assert not stage_changes([run(0.01)]).rows


def test_roll_outs_past_the_training_are_means_over_seeds_with_their_largest_size():
    far = [[[30.0, 0.1, 1.0], [50.0, 0.4, 1.5]], [[30.0, 0.3, 1.1], [50.0, 0.6, 1.2]]]
    table = far_table([run(0.01), *(run(0.01, seed=i, far=one) for i, one in enumerate(far))])
    assert table.rows == (("1000", "30", "2.00e-1", "1.1 ×", "2"), ("1000", "50", "5.00e-1", "1.5 ×", "2"))
    assert not far_table([run(0.01)]).rows
