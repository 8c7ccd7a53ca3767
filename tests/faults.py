"""Faults and bad inputs that must end well, and the tests that show it.

"Refused" means: a clear error at the call, naming what is wrong, and the model, file or data that was there before is
unchanged. A test is named by its file and by a part of its name that no other file needs to share; records are those
that `make fuzz` writes.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FAULTS", "Fault", "shown_by"]


@dataclass(frozen=True)
class Fault:
    """What happens, what must follow, and where that is shown."""

    happens: str
    follows: str
    tests: tuple[str, ...]
    """`file.py::words`: all tests of that file under tests/ whose names match, as a regular expression"""
    records: tuple[str, ...] = ()
    """Of results/reliability"""


FAULTS = (
    Fault(
        "NaN or Inf in any array given to fit, predict, calibrate, partial_fit",
        "refused; names the array, how many, the first sample",
        ("test_operator.py::nonfinite", "test_cli.py::nan_in_a_file", "recipe/test_search.py::nan_is_refused"),
    ),
    Fault(
        "wrong number of dimensions, other grid, inputs and outputs of different length, swapped arguments",
        "refused with expected and found shape",
        ("test_operator.py::wrong_shapes", "test_staged.py::another_shape", "test_validation.py::another_grid|length"),
    ),
    Fault(
        "empty, one sample, one feature, fewer samples than components or widths",
        "works with the rank clipped and one warning, or refused clearly; never NaN in a fitted attribute",
        ("test_operator.py::fewer_samples|clipped_ranks|one_feature", "test_staged.py::as_few_samples"),
    ),
    Fault(
        "constant fields",
        "no division warning; predicts the constant",
        ("test_operator.py::constant_fields", "test_staged.py::never_var", "latent/test_pca.py::constant_fields"),
    ),
    Fault(
        "rank-deficient data, duplicated samples",
        "equals a float64 SVD oracle to 1e-8 on every backend",
        ("test_operator.py::svd_oracle", "readout/test_direct.py::rank_deficient|duplicated"),
    ),
    Fault(
        "values of 1e30 or 1e-30, float16/32/64, integers, big-endian",
        "same answer as rescaled data",
        (
            "test_operator.py::rescaled|unit_of_the_inputs|huge_and_tiny|any_real_type",
            "test_staged.py::units_do_not",
            "reliability/test_any_array.py::unit_of_all|types_and",
        ),
    ),
    Fault(
        "Fortran order, negative strides, read-only, memory-mapped",
        "identical to a C-order copy; inputs never modified; survives save and load",
        (
            "test_operator.py::memory_layout",
            "storage/test_container.py::order_of_memory",
            "test_validation.py::mapped",
            "reliability/test_any_array.py::types_and",
        ),
    ),
    Fault(
        "complex, object, string or masked arrays",
        "refused",
        ("test_operator.py::hold_no_real_numbers|complex", "test_validation.py::objects|masked|sparse"),
    ),
    Fault(
        "scales running to 0 or ∞ in the refinement, loss not finite",
        "never worse than the energy-matched start; the report says what happened",
        ("features/test_refine.py::scales_running_away",),
    ),
    Fault(
        "alpha outside (0, 1); too few calibration samples for alpha",
        "refused; or infinite width with a warning that states the number needed",
        ("test_operator.py::levels_outside|too_few_calibration", "uncertainty/test_bands.py::too_few"),
    ),
    Fault(
        "one member, or members that agree",
        "intervals stay finite and valid; the floor is relative to the field's scale",
        ("test_operator.py::one_member|floor_of_the_spread", "uncertainty/test_bands.py::floor"),
    ),
    Fault(
        "predict_interval before calibrate; after partial_fit",
        "refused; adaptation makes the calibration stale and says so, or the intervals follow",
        (
            "test_operator.py::before_calibration|intervals_follow",
            "test_surrogate.py::intervals_need|follows",
            "reliability/test_any_order.py::",
        ),
    ),
    Fault(
        "100 000 online updates, repeated samples, forgetting < 1",
        "covariance stays symmetric positive; drift from the batch refit bounded",
        ("readout/test_recursive.py::hundred_thousand|repeated", "reliability/test_fuzzing.py::long_streams"),
        ("soak",),
    ),
    Fault(
        "blocks, single samples or another order of the same new data",
        "the same weights",
        ("readout/test_recursive.py::single_samples|order_of_samples", "test_staged.py::order_does_not_matter"),
    ),
    Fault(
        "saving: kill −9 at any moment, disk full, read-only folder, symlink, existing file",
        "the old file is intact and loads; no stray temporary file; clear error",
        ("test_files.py::kill|failed_write|read_only|link", "reliability/test_fuzzing.py::kills"),
        ("kills",),
    ),
    Fault(
        "loading: truncated, any byte flipped, empty, an HTML page, a pickle renamed, newer format version",
        "one typed error; never a crash, never code run, never a different prediction",
        (
            "storage/test_container.py::cut_short|flipped|other_files|pickle|newer",
            "reliability/test_fuzzing.py::changed_files|damage",
        ),
        ("models",),
    ),
    Fault(
        "malicious model file: huge header, giant shapes, deep JSON",
        "refused with memory bounded by the file's size",
        ("storage/test_container.py::malicious", "reliability/test_fuzzing.py::changed_files|memory"),
        ("models",),
    ),
    Fault(
        "data files: object arrays in npz, lying npy header, zip bomb, HDF5 external or virtual datasets, "
        "missing keys, NaN",
        "refused with the reason",
        (
            "problems/test_readers.py::objects|lying|bomb|external|virtual|nan|missing",
            "problems/test_heaps.py::",
            "reliability/test_fuzzing.py::changed_files",
        ),
        ("data",),
    ),
    Fault(
        "predict and partial_fit from several threads",
        "every prediction equals some published state",
        ("test_operator.py::published_state", "test_staged.py::threads_predict"),
        ("threads",),
    ),
    Fault(
        "pickling for joblib workers, grid search with several jobs, clone",
        "works, equal results",
        (
            "test_operator.py::grid_search|clone|pickl",
            "test_staged.py::clone|pickling",
            "marching/test_estimator.py::clone",
        ),
    ),
    Fault(
        "same seed twice; other chunking; CPU and GPU",
        "identical bytes on one backend; within rounding across",
        ("test_operator.py::same_seed|torch_equals|every_backend", "uncertainty/test_bands.py::blocks"),
    ),
    Fault(
        "Ctrl-C during fit or generation",
        "unfitted, or the last good state; no half-written cache",
        ("test_operator.py::interrupted", "test_staged.py::interrupted", "problems/test_cache.py::ctrl_c"),
    ),
    Fault(
        "cache: corrupted entry, two processes generating the same data",
        "detected and regenerated; one result",
        ("problems/test_cache.py::flipped|truncated|not_believed|two_processes",),
    ),
    Fault(
        "GPU asked for and absent; GPU out of memory",
        "a clear error that says what to do; state intact",
        ("backend/test_arrays.py::device_that_is_not_there",),
    ),
    Fault(
        "input far from the training data",
        "reported, not silently extrapolated",
        ("uncertainty/test_novelty.py::far_from|every_call", "test_staged.py::leave_the_range"),
    ),
    Fault(
        "samples in any order (sorted sweeps), any number",
        "the same accuracy as shuffled",
        ("test_fitting.py::sorted_sweep", "test_staged.py::order_of_training"),
    ),
    Fault(
        "a file loaded under another BLAS, thread count, CPU or GPU",
        "the same function to 1e-9",
        ("storage/test_rebuild.py::fresh_process|torch_model",),
    ),
    Fault(
        "several threads that write (partial_fit, calibrate)",
        "every sample is learned once; a calibration belongs to the state it saw",
        ("backend/test_locking.py::thread|calibration", "reliability/test_fuzzing.py::threads"),
        ("threads",),
    ),
    Fault(
        "an output path that is an input, another data file, a FIFO, a device, a folder",
        "refused; the file that was there is unchanged",
        ("test_files.py::pipe|device|socket", "test_cli.py::named_pipe"),
    ),
    Fault(
        "calibration or evaluation on training samples",
        "reported",
        ("uncertainty/test_fingerprints.py::calibration_on_training|learned_later|known_ones",),
    ),
    Fault(
        "one input coordinate outside its training range",
        "reported by name; the band widens",
        ("uncertainty/test_extrapolation.py::one_coordinate|names_the_column|as_wide_as",),
    ),
    Fault(
        "a roll-out that leaves the training data or diverges",
        "reported at the step where it happens",
        ("marching/test_watch.py::", "uncertainty/test_extrapolation.py::roll_out"),
    ),
    Fault(
        "a model that is no better than the mean",
        "said at the end of fit",
        ("uncertainty/test_fit_report.py::warn", "test_operator.py::warn_only_where_inputs_say_nothing"),
    ),
    Fault(
        "a store with missing chunks, chunks larger than memory, codecs that are not known",
        "refused with the reason",
        ("problems/test_stores.py::", "problems/test_unpacking.py::", "reliability/test_fuzzing.py::changed_files"),
        ("stores",),
    ),
    Fault(
        "sizes in a file whose product is larger than memory",
        "refused before anything is allocated",
        ("storage/test_limits.py::",),
        ("models",),
    ),
)
"""In the order of the table"""


def shown_by(fault: Fault, folder: Path) -> dict[str, list[str]]:
    """Functions of each test file that show it, by the words that they were asked for with."""
    found = {}
    for said in fault.tests:
        file, _, words = said.partition("::")
        tree = ast.parse((folder / file).read_text(encoding="utf-8"))
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
        found[said] = [name for name in names if re.search(words, name)]
    return found
