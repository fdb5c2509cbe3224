"""Results in which any one value is another: every reader works, or refuses in one sentence."""

import json
import shutil

import pytest

from chaos.hostile.documents import places
from lookalike.compare.comparison import chosen_metric, compare
from lookalike.compare.contenders import gather
from lookalike.errors import LookalikeError
from lookalike.files import read_json
from lookalike.report import write_page
from lookalike.study.status import status_of, status_table
from lookalike.training import Run

GONE = object()
VALUES = (GONE, None, True, -1, 2**63, 1e300, float("nan"), float("inf"), "", "x", [], {}, [[]])


SETTINGS = {
    "data": [{"name": "cub"}],
    "workers": 2,
    "tuner": {"trials": 9},
    "protocol": {"name": "cross-validation", "folds": 2},
    "repeats": 2,
}


def read_study(folder):
    """What ``study status``, ``compare`` and ``report`` do."""
    status_table(status_of(folder))
    read_anything(folder)


def read_run(folder):
    """What ``compare`` and ``report`` do."""
    Run(folder).epochs()
    read_anything(folder)


def read_anything(folder):
    found = gather([folder])
    compare(found, chosen_metric(found))
    write_page(folder.parent / "page.html", found, "A title", "A sentence.")


def forged(path, document):
    """The document with one value changed, for each place that others are not like."""
    seen = set()
    for number in range(len(places(document))):
        for value in VALUES:
            copy = json.loads(json.dumps(document))
            holder, key = places(copy)[number]
            if isinstance(key, int) and key > 0:
                continue
            before = holder[key]
            if value is GONE:
                del holder[key]
            else:
                holder[key] = value
            text = json.dumps(copy)
            if text not in seen:
                seen.add(text)
                yield f"{path.name}: {key} = {str(before)[:60]} became {value!r:.20}", text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["study.json", "glyphs/triplet.json", "glyphs/baselines.json"])
def test_any_value_of_a_study_may_be_another(make_study, tmp_path, name):
    methods = {"triplet": 0.6, "contrastive": 0.61}
    whole = make_study(tmp_path / "whole", methods, repeats=2, folds=2, trials=9, classes=4)
    shutil.copytree(whole, tmp_path / "study")
    path, document = tmp_path / "study" / name, read_json(whole / name)
    if name == "study.json":
        document["study"] |= SETTINGS
    if "config" in document:  # a whole one has 150 values, which the schema refuses alike
        document["config"] = {"loss": {"name": "triplet"}, "protocol": SETTINGS["protocol"]}
    path.write_text(json.dumps(document))
    refuse_tracebacks(read_study, tmp_path / "study", path, document)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["result.json", "environment.json", "timing.json"])
def test_any_value_of_a_run_may_be_another(make_run, tmp_path, name):
    whole = make_run("forged").run.folder
    folder = tmp_path / whole.name
    shutil.copytree(whole, folder)
    refuse_tracebacks(read_run, folder, folder / name, read_json(whole / name))


def refuse_tracebacks(read, folder, path, document):
    """Fail where a reader of a folder with a forged file raises anything but a sentence."""
    read(folder)
    failures = []
    for what, text in forged(path, document):
        path.write_text(text, encoding="utf-8")
        try:
            read(folder)
        except LookalikeError as error:
            if "\n" in str(error).strip():
                failures.append(f"{what}: {error}")
        except Exception as error:
            failures.append(f"{what}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
