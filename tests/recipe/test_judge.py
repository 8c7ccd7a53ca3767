from pcarann.recipe.judge import FOLDS, split_into_folds


def test_another_seed_cuts_other_folds():
    assert split_into_folds(range(60), 1) != split_into_folds(range(60), 0)


def test_folds_hold_every_sample_out_once():
    folds = split_into_folds(range(33), 0)
    assert sorted(i for _, held in folds for i in held) == list(range(33))
    assert all(sorted(inner + held) == list(range(33)) for inner, held in folds)
    assert len(folds) == FOLDS


def test_repeats_are_in_one_fold():
    groups = [i % 12 for i in range(40)]
    for inner, held in split_into_folds(groups, 0):
        assert not {groups[i] for i in inner} & {groups[i] for i in held}
        assert sorted(inner + held) == list(range(40))
