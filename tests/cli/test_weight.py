"""What commands import: no more than they need, and one sentence where that is not installed."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.inference.embedder import Embedder
from lookalike.inference.export import write_onnx
from lookalike.inference.onnx_encoder import OnnxEncoder

HEAVY = {
    *("torchvision", "timm", "sklearn", "scipy", "matplotlib", "plotly", "optuna", "faiss"),
    *("lightning_fabric", "pandas", "sqlalchemy", "torch._dynamo", "fastapi", "onnxruntime"),
}
COUNT = """
import sys
import torch
known = set(sys.modules)
sys.argv = ["lookalike", *{arguments!r}]
from lookalike.cli import main
try:
    main()
except SystemExit:
    pass
new = set(sys.modules) - known
print(len(new), *sorted(new & {heavy!r}), file=sys.stderr)
"""
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["lookalike", *{arguments!r}]
from lookalike.cli import main
main()
"""


def python(program, cwd):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "losses"],
        ["list", "losses", "triplet"],
        ["list", "keys"],
        ["list", "datasets"],
        ["list", "networks"],
        ["list", "metrics"],
        ["train", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_imports_little_beyond_torch(arguments, tmp_path):
    _, shown, told = python(COUNT.format(arguments=arguments, heavy=HEAVY), tmp_path)
    assert shown
    count, *heavy = told.splitlines()[-1].split()
    assert heavy == []
    assert int(count) < 600  # list losses: about 450, of which 200 are typer's and pydantic's


NOTHING_ELSE = sorted(
    {*HEAVY - {"scipy"}, "PIL", "safetensors", "jinja2", "markupsafe", "platformdirs"}
)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "data.name=glyphs"], "train"),
        (["study", "run", "recipe:studies/tiny"], "study"),
        (["search", "nowhere.index", "x.jpg"], "train"),
        (["demo"], "train"),
    ],
)
def test_what_is_not_installed_is_named(arguments, extra, tmp_path):
    code, _, told = python(BLOCK.format(arguments=arguments, absent=NOTHING_ELSE), tmp_path)
    assert code == 2, told
    assert told.startswith("lookalike: this needs the package '")
    assert f"pip install 'lookalike[{extra}]'" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("absent", "arguments", "extra"),
    [
        (["optuna"], ["study", "run", "recipe:studies/tiny"], "study"),
        (["plotly"], ["report", "results/laptop-reality-check"], "report"),
        (["fastapi"], ["serve", "nowhere.index"], "serve"),
    ],
)
def test_the_extra_is_that_of_the_command(absent, arguments, extra, tmp_path):
    code, _, told = python(BLOCK.format(arguments=arguments, absent=absent), tmp_path)
    assert (code, f"lookalike[{extra}]" in told) == (2, True), told


def test_the_library_needs_nothing_of_the_extras(tmp_path):
    program = """
import torch
import lookalike as la
loss, miner = la.losses.MultiSimilarityLoss(), la.miners.MultiSimilarityMiner()
rows, labels = torch.randn(16, 8, requires_grad=True), torch.arange(16) // 4
loss(rows, labels, miner(rows, labels)).backward()
print(la.evaluate(rows.detach(), labels, ("recall@1", "map@r")))
next(iter(la.samplers.create("spc", labels, batch_size=8, per_class=4, seed=0)))
"""
    start = BLOCK.format(absent=NOTHING_ELSE, arguments=[]).partition("sys.argv")[0]
    code, shown, told = python(start + program, tmp_path)
    assert code == 0, told
    assert "recall@1" in shown


def test_a_search_starts_without_the_library_of_its_network(tmp_path):
    """The network is timm's; ``index`` keeps an ONNX copy, by which ``search`` embeds."""
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (160, 160), colour).save(tmp_path / "photos" / name / "1.png")
    index = ["index", "--network", "efficientnet-lite0", "photos", "-o", "shop.index"]
    assert python(COUNT.format(arguments=index, heavy=HEAVY), tmp_path)[0] == 0
    query = ["search", "shop.index", "photos/red/1.png"]
    _, shown, told = python(COUNT.format(arguments=query, heavy=HEAVY), tmp_path)
    assert shown.splitlines()[1].endswith(" red/1.png")
    count, *heavy = told.splitlines()[-1].split()
    assert heavy == ["onnxruntime"]
    assert int(count) < 700


def test_a_damaged_copy_of_the_network_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    embedder = Embedder.from_network("small-cnn", weights="none", transform="small-160")
    assert OnnxEncoder.kept(embedder.fingerprint) is None
    OnnxEncoder.of(embedder)
    kept = OnnxEncoder.kept(embedder.fingerprint)
    assert kept is not None
    assert kept.fingerprint == embedder.fingerprint
    (copy,) = tmp_path.glob("*.onnx")
    whole = copy.read_bytes()
    for wrong in (whole[:1000], whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]):
        copy.write_bytes(wrong)
        assert OnnxEncoder.kept(embedder.fingerprint) is None


def test_a_copy_of_another_network_under_the_same_name_is_not_used(tmp_path, monkeypatch):
    """Also one that says that it is this model: what a file says about itself proves nothing."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    torch.manual_seed(1)
    mine = Embedder.from_network("small-cnn", weights="none", transform="small-160")
    OnnxEncoder.of(mine)
    torch.manual_seed(2)
    other = Embedder.from_network("small-cnn", weights="none", transform="small-160")
    (copy,) = tmp_path.glob("*.onnx")
    other.fingerprint = mine.fingerprint
    write_onnx(other, copy)
    assert OnnxEncoder(copy).fingerprint == mine.fingerprint
    assert OnnxEncoder.kept(mine.fingerprint) is None
    picture = Image.effect_noise((160, 160), 80).convert("RGB")
    again = OnnxEncoder.of(mine)  # exported again
    np.testing.assert_allclose(again.embed([picture]), mine.embed([picture]), atol=1e-5)
    assert OnnxEncoder.kept(mine.fingerprint) is not None
    note = copy.with_suffix(".json")
    note.write_text(note.read_text().replace(mine.fingerprint, "0" * 32))
    assert OnnxEncoder.kept(mine.fingerprint) is None  # the digest of a copy of another model
