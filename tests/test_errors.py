"""Errors are one line, whatever they repeat."""

from lookalike.data.image_set import UnreadableImage
from lookalike.errors import BadInput, did_you_mean


def test_line_breaks_and_terminal_codes_of_file_names_are_not_repeated():
    assert str(BadInput("no file 'a\nb'")) == "no file 'a b'"
    assert "\x1b" not in str(UnreadableImage("\x1b[2J.png", "broken\nfile"))
    assert "\n" not in str(UnreadableImage("x.png", "broken\nfile"))


def test_a_huge_value_is_left_out_and_the_end_of_the_sentence_is_not():
    text = str(BadInput(f"there is no pooling '{'x' * 10**5}'; did you mean 'max'?"))
    assert len(text) < 2_000
    assert text.startswith("there is no pooling 'xx")
    assert text.endswith("did you mean 'max'?")


def test_a_huge_name_is_compared_by_its_beginning():
    assert did_you_mean("triplet" + "x" * 10**7, ["triplet"]) == "choose one of: triplet"
