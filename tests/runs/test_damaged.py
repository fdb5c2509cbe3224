"""Files of a finished run that are not as the run wrote them."""

import json
import shutil

import pytest

from lookalike.errors import LookalikeError
from lookalike.runs.run import Run, model_tensors, test_embeddings
from lookalike.training.checkpoint import save_weights


@pytest.fixture
def run(make_run, tmp_path):
    """A copy of a finished run."""
    made = make_run("damaged").run
    save_weights(made.weights, {"w": test_embeddings(made).embeddings})
    made.finish(made.result, 12.34)
    shutil.copytree(made.folder, tmp_path / made.folder.name)
    return Run(tmp_path / made.folder.name)


@pytest.mark.parametrize(
    ("name", "read"),
    [("model.safetensors", model_tensors), ("test.safetensors", test_embeddings)],
)
def test_a_flipped_bit_of_tensors_is_a_sentence(run, name, read):
    read(run)
    path = run.folder / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(LookalikeError, match=rf"'.*{name}' is damaged"):
        read(run)
    path.unlink()
    with pytest.raises(LookalikeError, match=f"cannot read '.*{name}'"):
        read(run)


def test_the_result_does_not_show_its_checksums(run):
    assert not {"files", "checksum"} & run.result.keys()


@pytest.mark.parametrize("share", [0.005, 0.3, 0.6, 0.8])
def test_a_configuration_that_was_cut_is_not_filled_with_defaults(run, share):
    path = run.folder / "config.yaml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[: max(1, int(share * len(lines)))]))
    with pytest.raises(LookalikeError, match=r"config\.yaml"):
        run.config  # noqa: B018


def test_runs_and_images_may_be_moved(run):
    path = run.folder / "config.yaml"
    path.write_text(path.read_text().replace("root: null", "root: /elsewhere"))
    assert str(run.config.data.root) == "/elsewhere"


def test_a_wrong_path_of_images_names_the_file_that_has_it(run):
    path = run.folder / "config.yaml"
    _, _, settings = path.read_text().partition("\n")
    name = run.config.data.name
    forged = settings.replace(f"name: {name}", "name: folder").replace("root: null", "root: /none")
    path.write_text(forged)
    with pytest.raises(LookalikeError, match=r"no folder: /none \(a path of '.*config\.yaml'"):
        test_embeddings(run)


@pytest.mark.parametrize("forged", ["null", "[1]", '"text"'])
def test_checksums_that_are_no_mapping_are_a_sentence(run, forged):
    (run.folder / "result.json").write_text(f'{{"files": {forged}}}')
    with pytest.raises(LookalikeError, match=r"result\.json' is damaged"):
        test_embeddings(run)


def test_a_log_nested_too_deep_is_a_sentence(run):
    run.log.write_text("[" * 100_000)
    with pytest.raises(LookalikeError, match=r"metrics\.jsonl' is damaged"):
        run.epochs()


@pytest.mark.parametrize("score", ["0.5", None, True, 1e12, 10**400])
def test_scores_that_are_no_numbers_are_a_sentence(run, score):
    result = run.result | {"test": {"recall@1": score}}
    (run.folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(LookalikeError, match=r"result\.json"):
        _ = run.scores
