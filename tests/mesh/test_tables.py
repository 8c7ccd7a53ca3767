"""Tables are put once at every place, and pickled without what is there."""

import pickle

import numpy as np
import torch

from pcarann.mesh.tables import Table


def test_a_table_is_put_once_at_a_place():
    table = Table(np.arange(3.0))
    fields = torch.ones(2, dtype=torch.float32)
    assert table.beside(fields) is table.beside(fields)
    assert table.beside(fields).dtype == torch.float32
    assert table.beside(np.ones(1)) is not table.beside(fields)


def test_whole_numbers_stay_whole():
    assert Table(np.arange(3)).beside(torch.ones(2)).dtype == torch.int64
    assert Table(np.arange(3)).beside(np.ones(2, dtype=np.float32)).dtype == np.int64


def test_what_was_handed_over_may_change():
    host = np.arange(3.0)
    table = Table(host)
    host[0] = 7
    assert table.host[0] == 0
    table.beside(torch.ones(1))
    assert np.array_equal(pickle.loads(pickle.dumps(table)).host, table.host)
