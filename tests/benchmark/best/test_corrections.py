"""What each stage corrects: the run, and the picture that is drawn from what it wrote."""

import numpy as np
import pytest

from pcarann.benchmark.best.corrections import run_corrections
from pcarann.benchmark.paper.configurations import PROBLEMS
from pcarann.benchmark.records import fields_beside, read_records, write_record
from pcarann.metrics import relative_l2

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def found(own_cache):
    return run_corrections(PROBLEMS["darcy"].quick())


def test_stages_lead_from_the_mean_field_towards_the_truth(found):
    record, fields = found
    assert len(record["errors"]) == len(fields["after"]) >= 2
    assert record["errors"][-1] < 0.5 * record["errors"][0]
    own = [relative_l2(one[None], fields["truth"][None]) for one in fields["after"]]
    assert np.allclose(own, fields["errors"], rtol=1e-6, atol=0)


def test_fields_are_written_beside_the_record_and_drawn(found, tmp_path):
    pytest.importorskip("matplotlib")
    from pcarann.benchmark.report.report import build_report

    path = write_record(tmp_path / "records", *found)
    (record,) = read_records(tmp_path / "records")
    assert (path.name, record["kind"], record["n_train"]) == ("darcy-corrections-cpu.json", "corrections", 60)
    fields = fields_beside(tmp_path / "records", record)
    assert np.array_equal(fields["after"], found[1]["after"])
    build_report(tmp_path / "records", tmp_path)
    assert (tmp_path / "figures" / "stages.png").exists()
    assert "What each stage corrects" in (tmp_path / "report.md").read_text()
