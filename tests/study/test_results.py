import dataclasses
import json
import math
import statistics

import pytest
from scipy import stats

from lookalike.errors import BadInput, LookalikeError
from lookalike.files import CHECKSUM, read_json, write_json
from lookalike.study.intervals import interval
from lookalike.study.result_files import load_results, write_baselines, write_method, write_study
from lookalike.study.results import BaselineRow, MethodRow, PlannedRow, Repeat, StudyResults, Trial

ROW = MethodRow(
    dataset="glyphs",
    method="triplet",
    config={"loss": {"name": "triplet", "margin": 0.2}},
    tuned={"loss.margin": 0.2},
    validation=0.5,
    trials=(
        Trial(0, {"loss.margin": 0.2}, "complete", 0.5, (0.4, 0.6), 1.5),
        Trial(1, {"loss.margin": 9.0}, "pruned", None, (0.1,), 0.5),
        Trial(2, {"loss.margin": 1.0}, "failed", None, (), 0.1, "the loss is nan"),
    ),
    repeats=(
        Repeat(0, 1, (0.5, 0.5), ({"map@r": 0.2}, {"map@r": 0.4}), {"map@r": 0.5}, 2.0),
        Repeat(1, 2, (0.5, 0.5), ({"map@r": 0.3}, {"map@r": 0.5}), {"map@r": 0.7}, 2.0),
    ),
    trials_asked=3,
    repeats_asked=2,
)
BASELINE = BaselineRow("glyphs", "lda", 8, {"shrink": 0.1}, (0.4, 0.4), (), {"map@r": 0.3}, 1.0)


def study(folder, methods=("triplet",)):
    return StudyResults(
        folder=folder,
        name="small",
        metric="map@r",
        study={"seed": 3},
        datasets=("glyphs",),
        methods=methods,
        planned=tuple(PlannedRow("glyphs", method, {}, 3, 2, 2) for method in methods),
        rows=(ROW,),
        baselines=(BASELINE,),
        facts={"glyphs": {"fingerprint": "ab", "images": 10}},
    )


def write(results):
    write_study(results)
    for row in results.rows:
        write_method(results.folder, row)
    write_baselines(results.folder, "glyphs", results.baselines)


def test_what_is_written_is_read_again(tmp_path):
    written = study(tmp_path)
    write(written)
    assert load_results(tmp_path) == written
    assert load_results(str(tmp_path)).finished


def test_a_study_is_unfinished_until_every_method_is(tmp_path):
    write(study(tmp_path, methods=("triplet", "margin")))
    found = load_results(tmp_path)
    assert not found.finished
    assert found.row("glyphs", "margin") is None
    assert not dataclasses.replace(ROW, trials_asked=4).finished


def test_a_row_counts_its_trials_and_repeats():
    assert (len(ROW.trials), ROW.failed, ROW.pruned, ROW.seeds) == (3, 1, 1, 2)
    assert ROW.values == (0.5,)
    assert ROW.seconds == pytest.approx(6.1)
    assert ROW.scores("map@r", "separate") == pytest.approx((0.3, 0.4))
    assert ROW.scores("map@r") == (0.5, 0.7)


def test_the_interval_is_that_of_students_t():
    values = [0.31, 0.35, 0.30, 0.33, 0.36]
    found = interval(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high, found.count) == (pytest.approx(low), pytest.approx(high), 5)


def test_one_repeat_has_the_deviation_of_its_folds_and_no_interval():
    models = ({"map@r": 0.2}, {"map@r": 0.4}, {"map@r": 0.45})
    once = Repeat(0, 1, (0.5,) * 3, models, {"map@r": 0.5}, 2.0)
    found = dataclasses.replace(ROW, repeats=(once,)).interval("map@r", "separate")
    assert found.mean == pytest.approx(statistics.mean([0.2, 0.4, 0.45]))
    assert found.sd == found.half == pytest.approx(statistics.stdev([0.2, 0.4, 0.45]))
    assert (found.over, found.count) == ("folds", 3)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    joined = dataclasses.replace(ROW, repeats=(once,)).interval("map@r")
    assert (joined.mean, joined.half, joined.over, joined.count) == (0.5, None, "repeats", 1)


def test_other_files_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"no study\.json"):
        load_results(tmp_path)
    write(study(tmp_path))
    path = tmp_path / "glyphs" / "triplet.json"
    changed = path.read_text().replace("0.", "1.", 1)
    values = read_json(path)
    path.write_text(changed)
    with pytest.raises(LookalikeError, match=r"triplet\.json' is damaged"):
        load_results(tmp_path)
    path.write_text(json.dumps(values | {"trials": [{"number": "x"}]}))
    with pytest.raises(BadInput, match=r"triplet\.json': trials\.0\.number"):
        load_results(tmp_path)
    trials = [values["trials"][0] | {"parameters": {"loss.margin": 1e300}}]
    path.write_text(json.dumps(values | {"trials": trials}))
    with pytest.raises(BadInput, match=r"trials\.0\.parameters: .*loss\.margin is 1e\+300"):
        load_results(tmp_path)
    repeats = [dict(repeat) for repeat in values["repeats"]]
    for untested, reason in (([{"recall@1": 0.5}], "no score 'map@r'"), ([], "separate")):
        repeats[0]["separate"] = untested
        path.write_text(json.dumps(values | {"repeats": repeats}))
        with pytest.raises(BadInput, match=rf"triplet\.json'.*{reason}"):
            load_results(tmp_path)
    repeats[0]["separate"] = [{"map@r": 1e12}]
    path.write_text(json.dumps(values | {"repeats": repeats}))
    with pytest.raises(BadInput, match=r"triplet\.json': repeats.*larger than 1e9"):
        load_results(tmp_path)
    write(study(tmp_path))
    bases = tmp_path / "glyphs" / "baselines.json"
    told = read_json(bases)
    told["baselines"][0]["concatenated"] = {}
    bases.write_text(json.dumps(told))
    with pytest.raises(BadInput, match=r"baselines\.json' is damaged: .* has no score 'map@r'"):
        load_results(tmp_path)
    path.write_text(json.dumps(values | {"format": 99}))
    with pytest.raises(BadInput, match="format 99, and this version reads 1"):
        load_results(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"datasets": 3}, {"datasets": [1]}, {"planned": {}}, {"planned": [1]}, {"study": []},
        {"methods": None}, {"datasets": ["../other"]}, {"datasets": ["/etc"]}, {"facts": {"a": 1}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_study_of_other_types_is_refused(tmp_path, make_study, change):
    folder = make_study(tmp_path / "study")
    path = folder / "study.json"
    values = json.loads(path.read_text()) | change
    write_json(path, {key: one for key, one in values.items() if key != CHECKSUM}, sealed=True)
    with pytest.raises(BadInput, match=r"study\.json"):
        load_results(folder)


@pytest.mark.parametrize(
    "text", ['{"format": 1}', '{"format": 1, "baselines": {"a": 1}}', "[" * 99999]
)
def test_damaged_baselines_are_refused(tmp_path, make_study, text):
    folder = make_study(tmp_path / "study")
    (path,) = folder.glob("*/baselines.json")
    path.write_text(text)
    with pytest.raises(LookalikeError, match=r"baselines\.json"):
        load_results(folder)


def test_damaged_scores_per_class_are_refused(tmp_path):
    import io

    import numpy as np

    from lookalike.study.classes import read_classes

    whole = io.BytesIO()
    np.savez_compressed(whole, classes=np.arange(999))
    data = bytearray(whole.getvalue())
    data[200:260] = bytes(60)
    path = tmp_path / "a.classes.npz"
    path.write_bytes(data)
    with pytest.raises(LookalikeError, match=r"classes\.npz"):
        read_classes(path)
