"""PML's own tests with our parts in place of its own.

They are not in its wheel and not in this repository: LOOKALIKE_PML_TESTS names the folder ``tests``
of a checkout of pytorch-metric-learning. In float32, on the CPU.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("LOOKALIKE_PML_TESTS")
SKIPPED = ["testers", "trainers", "datasets", "utils/test_distributed.py"]
SKIPPED += ["utils/test_inference.py"]
"""Trainers, testers and data sets are not here; the last two need GPUs and a network."""

OTHER_ERROR = "it expects an AssertionError or NotImplementedError; ours is BadInput"
INNER = "it calls inner methods of PML"
ROUNDING = "it compares logits near 0 with a tolerance of 1e-8"
EQUAL = "of two equally hard pairs it expects the one that topk happens to give"
KNOWN = {
    "test_custom_embedding_ndim": "it gives embeddings of three dimensions",
    "test_cosface_loss": ROUNDING,
    "test_proxy_nca_loss": ROUNDING,
    "test_proxyanchor_loss": ROUNDING,
    "test_subcenter_arcface_loss": ROUNDING,
    "test_input_indices_tuple": INNER,
    "test_all_losses": "it reads PML's list of supported losses",
    "test_ssl_wrapper_all": "it reads PML's list of supported losses",
    "test_dynamic_soft_margin_loss_without_labels": "it pads batches of unequal size with zeros",
    "test_assertion_raises": OTHER_ERROR,
    "test_instance_loss": "PML takes the number of a class for the place of an image",
    "test_losses_without_labels.py": "AngularLoss works without labels here",
    "test_intrinsic_and_context_losses": OTHER_ERROR,
    "test_key_mismatch": OTHER_ERROR,
    "test_length_mistmatch": OTHER_ERROR,
    "test_multiple_losses": OTHER_ERROR,
    "test_with_no_valid_pairs": "SupCon of a batch without negatives has the positives' part here",
    "test_p2s_grad_loss_with_paper_formula": "the gradient goes through the length of the vectors",
    "test_angular_miner": "angles are those of unit vectors here",
    "test_dist_mining": INNER,
    "test_normalized_dist_mining": EQUAL,
    "test_normalized_dist_squared_mining": EQUAL,
    "test_sim_mining": EQUAL,
    "test_distance_weighted_miner_with_ref_labels": "one negative is drawn for each positive pair",
    "test_distance_weighted_miner": "one negative is drawn for each positive pair",
    "test_per_anchor_reducer": "triplets are refused there; ours reduces them",
    "test_setting_reducers": INNER,
    "test_mperclass_sampler_with_batch_size": OTHER_ERROR,
    "test_tuplestoweights_sampler": "it downloads a data set",
    "test_accuracy_calculator": INNER,
    "test_accuracy_calculator_and_faiss_with_torch_and_numpy": OTHER_ERROR,
    "test_k_warning": "it reads PML's log",
    "test_collect_stats_flag": "no statistics are kept",
}
"""Tests of PML that fail with our parts, and why."""


def known(test):
    """The reason why a test of PML fails, if there is one."""
    file, _, name = test.partition("::")
    return KNOWN.get(name.rpartition("::")[2]) or KNOWN.get(Path(file).name)


@pytest.mark.slow
@pytest.mark.skipif(FOLDER is None, reason="LOOKALIKE_PML_TESTS does not name PML's tests")
def test_what_fails_is_known(tmp_path):
    tests = Path(FOLDER).resolve()
    report = tmp_path / "report.json"
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-p", "in_place", "-q", "-p", "no:cacheprovider"]
    command += [f"--in-place-report={report}", *(f"--ignore={tests / name}" for name in SKIPPED)]
    settings = {"TEST_DEVICE": "cpu", "TEST_DTYPES": "float32"}
    settings["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    subprocess.run([*command, str(tests)], cwd=tests.parent, env=os.environ | settings)
    outcomes = json.loads(report.read_text(encoding="utf-8"))
    failed = {test for test, found in outcomes.items() if found["outcome"] == "failed"}
    assert len(outcomes) > 100
    assert {test for test in failed if known(test) is None} == set()
