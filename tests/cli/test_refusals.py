"""Bad input to every command: one sentence, exit code 2, and nothing written."""

import shutil

import pytest

REFUSED = """
index {photos} -o i  |  give a run and pictures
index --network small-cnn a {photos} -o i  |  give a run and pictures
index {trained} {photos}  |  say where the index goes: '-o shop.index'
index {trained} {photos} -o i --store postgresql://h/d  |  say where
index {trained} nowhere -o i  |  there is no folder or file 'nowhere'
index {trained} {trained} -o i  |  there is no picture in '{trained}'
index nowhere {photos} -o i  |  there is no run or model 'nowhere'
index {photos} {photos} -o i  |  no config.yaml
index --network efficientnet-lit0 {photos} -o i  |  'efficientnet-lite0'?
index --network small-cnn --transform smal {photos} -o i  |  did you mean 'small'?
index --network small-cnn --weights no.pth {photos} -o i  |  'no.pth'
index {trained} {photos} -o {shop}  |  'lookalike index add' adds to it
index {trained} {photos} -o {photos}  |  exists already and is not an index
index {trained} {photos} -o /dev/null/i  |  /dev/null
index {trained} {photos} --store mysql://h/d  |  is no address of PostgreSQL
index add nowhere {photos}  |  there is no index 'nowhere'
index add {shop} nowhere  |  there is no folder or file 'nowhere'
index remove {shop}  |  say what to remove: paths, --label, --where or --missing
index remove {shop} red/7.png  |  did you mean 'red/
index remove {shop} --label rod  |  label 'rod'; did you mean 'red'?
index show {photos}  |  is not an index
search nowhere {photos}/red/1.png --sheet s.png  |  there is no index 'nowhere'
search {photos} {photos}/red/1.png --sheet s.png  |  is not an index
search {shop} nowhere.jpg --sheet s.png  |  cannot read the picture 'nowhere.jpg': No such file
search {shop} {photos} --sheet s.png  |  cannot read the picture '{photos}': Is a directory
search {shop} {shop}/index.json --sheet s.png  |  cannot read the picture '{shop}/index.json'
search {shop} {photos}/red/1.png --label rod --sheet s.png  |  did you mean 'red'?
search {shop} {photos}/red/1.png --model nowhere --sheet s.png  |  no run or model 'nowhere'
search {shop} {photos}/red/1.png --model no.onnx --sheet s.png  |  there is no file 'no.onnx'
search postgresql://127.0.0.1:1/d#x {photos}/red/1.png --sheet s.png  |  127.0.0.1
embed {trained} {photos}  |  say where the vectors go
embed {photos} -o v  |  give a run and pictures
embed {trained} {photos} -o v --shard 3/2  |  --shard 3/2 is invalid
embed {trained} {photos} -o v --gpus 1  |  need --executor ray
embed {trained} nowhere -o v  |  there is no folder or file 'nowhere'
embed {trained} {photos} -o {photos}  |  exists already
embed {trained} {photos} -o v --device abacus  |  --device abacus cannot be used
choose nowhere  |  data.root of 'folder' is no folder: nowhere
choose {photos} --minutes 0  |  --minutes 0 is invalid: it must be above 0
choose {photos} --minutes 0.0001  |  is too little: the features of 4 images
choose {photos} --metric recall  |  there is no metric 'recall'; did you mean
choose {photos} loss.name=triplet  |  'loss.name=triplet' cannot be set
choose {photos} model.dimm=3  |  there is no key 'model.dimm'; did you mean 'model.dim'?
choose {photos} model.frozen=false  |  so model.frozen stays true
choose model.dim=3  |  give a folder of pictures, or data.name=... for a data set
choose data.name=cup data.root=x  |  did you mean 'cub'?
duplicates nowhere --page d.html  |  there is no folder or file 'nowhere'
duplicates {trained} --page d.html  |  there is no picture in '{trained}'
duplicates {photos} --model nowhere --page d.html  |  there is no run or model 'nowhere'
duplicates {photos} --network resnet5 --page d.html  |  resnet5
duplicates {one} --model {trained} --page d.html  |  4 readable pictures, and there are 1
mislabelled nowhere --page d.html  |  nowhere
mislabelled {photos} --page d.html  |  no config.yaml
export {trained} --to onx  |  there is no export to 'onx'; did you mean 'onnx'?
export nowhere  |  there is no run or model 'nowhere'
export {photos}  |  no config.yaml
export {trained} -o {trained}  |  exists already
export {trained} -o /dev/null/m.onnx  |  /dev/null
export {trained} --to safetensors -o /dev/null/m  |  /dev/null
serve nowhere  |  there is no index 'nowhere'
serve {photos}  |  is not an index
serve {shop} --rate often  |  10/s, 100/min or 5000/h
serve {shop} --tokens nowhere  |  the tokens 'nowhere' cannot be read
serve {shop} --token short  |  a token needs 8 characters or more
serve {shop} --host no.such.host.invalid  |  no.such.host.invalid
compare nowhere  |  neither a run
compare {study} --metric mapr  |  did you mean 'map@r'?
audit nowhere.yaml  |  there is no file 'nowhere.yaml'
report {study} -o page.pdf  |  must end in .html
report {study} --compare-published metricks  |  did you mean 'metrix'?
report {study} --compare-published metrix  |  reports nothing about glyphs
train nowhere.yaml  |  there is no file 'nowhere.yaml'
train recipe:glyps  |  did you mean 'glyphs'
train loss.name=tripplet  |  did you mean 'triplet'
train los.name=triplet  |  did you mean 'loss'
train optim.lr=fast  |  optim.lr = 'fast' is invalid
train data.name=cub data.root=nowhere  |  nowhere
train loss.name=triplet loss.margin=abc  |  margin = 'abc' is invalid
train sampler.batch_size=abc  |  batch_size = 'abc' is invalid
train sampler.name=gc sampler.pool=null  |  pool = None is invalid
train sampler.seed=2  |  cannot be configured
train miner.name=semi-hard miner.margin=x  |  margin = 'x' is invalid
train train.device=cuda  |  train.device = 'cuda' cannot be used
train train.metric=pi-ratio  |  more of it is not better
train runs_dir=/dev/null  |  /dev/null
train model.weights={file}  |  not a weights file
train model.dim=0 model.freeze_backbone=true  |  nothing is left to learn
train loss.name=torch.nn:Linear  |  missing a required argument
train data.name=folder data.root=nowhere  |  nowhere
evaluate nowhere  |  neither the folder of a run nor
evaluate .  |  no config.yaml
evaluate {file}  |  neither an .npz nor an .npy
list lossses  |  did you mean 'losses'
list keys optim.lrr  |  did you mean 'optim.lr'
list losses trplet  |  did you mean 'triplet'
data check cub  |  data.root
data prepare inshop --root x  |  inshop
"""


@pytest.fixture(scope="module")
def known(photos, trained, shop, make_study, tmp_path_factory):
    """What the commands below name."""
    one = tmp_path_factory.mktemp("one")
    shutil.copy(photos / "red" / "0.png", one)
    study = make_study(tmp_path_factory.mktemp("studies") / "s")
    return {"photos": photos, "trained": trained, "shop": shop, "one": one, "study": study}


@pytest.mark.parametrize(
    "line", REFUSED.strip().splitlines(), ids=lambda line: line.split("  |  ")[0]
)
def test_bad_input_is_one_sentence(refused, known, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    command, sentence = line.format(**known, file=__file__).split("  |  ")
    before = sorted(known["shop"].rglob("*"))
    refused(*command.split(), sentence=sentence)
    assert list(tmp_path.iterdir()) == []
    assert sorted(known["shop"].rglob("*")) == before
