from pcarann.recipe.judge import FOLDS, split_into_folds


def test_another_seed_cuts_other_folds():
    assert split_into_folds(60, 1) != split_into_folds(60, 0)


def test_folds_hold_every_sample_out_once():
    folds = split_into_folds(33, 0)
    assert sorted(i for _, held in folds for i in held) == list(range(33))
    assert all(sorted(inner + held) == list(range(33)) for inner, held in folds)
    assert len(folds) == FOLDS
