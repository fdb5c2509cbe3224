import html
import json
from functools import partial

import pytest

from lookalike.choose import chooser, images, words
from lookalike.choose.chooser import choose
from lookalike.choose.images import Extraction
from lookalike.choose.words import write_outcome
from lookalike.config import load
from lookalike.errors import BadInput, LookalikeError
from lookalike.study.driver import Clock
from lookalike.training import train


@pytest.fixture
def chosen(tiny, pictures, few_candidates, in_process, tmp_path):
    """Run the command's work on sixteen classes of five images."""

    def run(clock=None, executor=in_process, folder=pictures, more=()):
        clock = clock or Clock(900)
        return choose(tiny(folder, *more), clock, executor, folder=tmp_path / "found")

    return run


def test_a_recommendation_with_its_files(chosen, few_candidates, tmp_path):
    found = chosen()
    assert found.unknown == ()
    names = {one.name for one in found.decision.candidates}
    assert names == {*few_candidates, "raw features", "PCA", "LDA, shrunk"}
    assert found.not_tried == found.failed == ()
    assert found.decision.compared.classes == 8
    assert words.headline(found).startswith("Use ")
    assert words.headline(found).endswith("on 8 classes it has not seen.")
    page, recipe = write_outcome(found, "lookalike choose photos")
    page = html.unescape(page.read_text(encoding="utf-8"))
    assert words.headline(found) in page
    assert "lookalike choose photos" in page
    told = json.loads((tmp_path / "found" / "recommendation.json").read_text())
    assert told["method"] == found.decision.chosen.name
    assert len(told["candidates"]) == 5
    alternative = recipe.with_name("trained.yaml")
    assert alternative.is_file() != found.decision.training_helps
    for path in (recipe, alternative) if alternative.is_file() else (recipe,):
        run = train(load(path, [f"runs_dir={tmp_path / 'runs'}"]))
        assert "recall@1" in run.result["test"]


def test_the_same_call_resumes(chosen, in_process):
    killed, second = in_process(7), in_process()
    with pytest.raises(KeyboardInterrupt):
        chosen(executor=lambda: killed)
    resumed = chosen(executor=lambda: second)
    assert len(killed.done) == 7
    assert second.done
    assert not {one.name for one in killed.done} & {one.name for one in second.done}
    third = in_process(0)  # would be interrupted by its first task
    again = chosen(executor=lambda: third).decision
    assert again.candidates == resumed.decision.candidates


class BusyAfter(Clock):
    """No time is left at the moment at which some tasks are done; before and after there is."""

    def __init__(self, pool, tasks):
        super().__init__(900)
        self.pool, self.tasks = pool, tasks

    @property
    def left(self):
        if len(self.pool.done) == self.tasks and not self.pool.given:
            self.tasks = None
            return -1.0
        return 900.0


def test_what_there_was_no_time_for_is_named(chosen, few_candidates, in_process):
    first, second = few_candidates
    pool = in_process()
    found = chosen(BusyAfter(pool, 22), lambda: pool)  # LDA's 9 x 2, and 2 x 2 of the first
    assert found.not_tried == (second,)
    assert first in {one.name for one in found.decision.candidates}
    assert any(f"Not tried for lack of time: {second};" in line for line in words.limits(found))
    assert chosen().not_tried == ()


def test_time_that_is_up_before_any_test_is_an_error(chosen, monkeypatch, in_process):
    class Slow(in_process):
        def wait(self, timeout):
            return []

    clock = Clock(900)
    monkeypatch.setattr(chooser, "chosen_shrink", partial(_late, clock))
    with pytest.raises(LookalikeError, match="with more --minutes goes on"):
        chosen(clock, Slow)


def _late(clock, *_):
    clock.begun -= 900
    return 0.1


def test_features_that_are_too_slow_stop_in_time(chosen, monkeypatch, tmp_path):
    clock = Clock(900)
    plan = images.plan_extraction

    def slow(*given, **options):
        clock.begun -= 900
        return plan(*given, **options)

    monkeypatch.setattr(images, "plan_extraction", slow)
    with pytest.raises(LookalikeError, match="of 80 steps of 'looking at images'"):
        chosen(clock)
    assert not (tmp_path / "found").exists()


def test_images_are_left_out_to_keep_the_time(chosen, monkeypatch):
    monkeypatch.setattr(images, "plan_extraction", lambda *_, **__: Extraction(0, 4))
    found = chosen()
    assert found.look.survey.images == 16 * 4
    assert found.recipe.data.name == "folder"
    _, first, second, *_ = words.limits(found)
    assert first == "To keep the time, 4 images of each class at most were used."
    assert second.startswith("To keep the time, 0 augmented views of each image")


def test_unreadable_images_are_left_out(chosen, coloured_noise):
    folder = coloured_noise(10, 5, size=(40, 40))
    (folder / "00" / "0.png").write_bytes(b"no image")
    found = chosen(folder=folder)
    assert found.look.survey.images == 49
    assert found.recipe.data.skip_unreadable
    assert found.decision is not None


def test_too_few_classes_say_what_cannot_be_known(chosen, coloured_noise, tmp_path):
    found = chosen(folder=coloured_noise(6, 4, size=(40, 40)))
    assert found.decision is None
    assert len(found.unknown) == 2
    assert found.untrained.classes == 6
    assert found.untrained.bounds is not None
    assert sum(line.startswith("Cannot be known: ") for line in words.reasons(found)) == 2
    page, recipe = write_outcome(found, "lookalike choose photos")
    assert "Cannot be known: " in page.read_text(encoding="utf-8")
    run = train(load(recipe, [f"runs_dir={tmp_path / 'runs'}"]))
    assert run.done
    assert found.recipe.model.dim == 0


def test_names_of_folders_and_images_are_text_on_the_page(chosen, coloured_noise, tmp_path):
    bad = "<img src=x onerror=alert(1)>"
    made = coloured_noise(6, 4, size=(40, 40))
    (made / "00").rename(made / bad)
    (made / bad / "0.png").rename(made / bad / f"{bad}.png")
    (made / bad / f"{bad}.png").write_bytes(b"no image")
    folder = made.rename(tmp_path / bad)
    path, _ = write_outcome(chosen(folder=folder), f"lookalike choose '{folder}'")
    page = path.read_text(encoding="utf-8")
    assert bad not in page
    assert html.escape(bad) in page


def test_a_folder_of_other_images_is_refused(chosen, coloured_noise):
    chosen(folder=coloured_noise(6, 4, size=(40, 40)))
    with pytest.raises(BadInput, match="was made from other images or settings"):
        chosen(folder=coloured_noise(7, 4, size=(40, 40)))


def test_one_class_is_refused(chosen, coloured_noise, tmp_path):
    with pytest.raises(BadInput, match="takes two such classes"):
        chosen(folder=coloured_noise(1, 4, size=(40, 40)))
    assert not (tmp_path / "found").exists()
