"""The command that goes past the paper, in quick mode, and the combinations that it refuses."""

import pytest
from click.testing import CliRunner

from pcarann.benchmark.best import experiments, stages
from pcarann.benchmark.best.models import ABLATIONS
from pcarann.benchmark.records import read_records
from pcarann.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


def test_best_writes_its_records_and_the_report(tmp_path, monkeypatch):
    """One seed and one change, for time."""
    pytest.importorskip("torch")
    monkeypatch.setattr(experiments, "SEEDS", (0,))
    monkeypatch.setattr(stages, "_SEEDS", (0,))
    kept = {"without symmetry": stages.STAGE_CHANGES["darcy"]["without symmetry"]}
    monkeypatch.setitem(stages.STAGE_CHANGES, "darcy", kept)
    changes = {"without symmetry": ABLATIONS["darcy"]["without symmetry"]}
    monkeypatch.setitem(ABLATIONS, "darcy", changes)
    command = ["reproduce", "darcy", "--best", "--quick", "--baselines", "--budget", "1s", "-o", str(tmp_path)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    found = read_records(tmp_path / "records")
    assert {(r["kind"], r.get("method"), r.get("change"), r.get("n_train")) for r in found} == {
        ("stages", None, None, 60),
        ("stages", None, "without symmetry", 60),
        ("corrections", None, None, 60),
        ("best", None, None, 60),
        ("best", None, "without symmetry", 60),
        ("best", None, None, 30),
        ("best", None, "without symmetry", 30),
        ("baseline", "fno_symmetric", None, None),
    }
    assert "## Past the paper" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--best", "--repeats", "3"], "--repeats does not go with --best, which fits each model once."),
        (["--best", "--budget", "1m"], "--budget limits the training of baselines: add --baselines."),
        (["--budget", "1m"], "--budget limits the training of baselines: add --baselines."),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, sentence, tmp_path):
    result = CliRunner().invoke(main, ["reproduce", "darcy", "--quick", "-o", str(tmp_path), *options])
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())
