import numpy as np
import pytest

from lookalike.errors import BadInput
from lookalike.evaluation import evaluate, read_embeddings, score


@pytest.fixture
def points(clusters):
    points, labels = clusters(60, 5, 6)
    return points, np.array([f"class {i}" for i in labels])


def test_everything_in_one_file(tmp_path, points):
    rows, labels = points
    cameras = np.arange(60) % 3
    np.savez(
        tmp_path / "all.npz",
        embeddings=rows[:20],
        labels=labels[:20],
        gallery=rows[20:],
        gallery_labels=labels[20:],
        ignore=cameras[:20],
        gallery_ignore=cameras[20:],
    )
    found = score(**read_embeddings(tmp_path / "all.npz").arguments())
    expected = evaluate(
        rows[:20],
        labels[:20],
        gallery=rows[20:],
        gallery_labels=labels[20:],
        ignore=cameras[:20],
        gallery_ignore=cameras[20:],
    )
    assert found.scores == expected


@pytest.mark.parametrize("kind", ["labels.npy", "labels.txt"])
def test_labels_in_another_file(tmp_path, points, kind):
    rows, labels = points
    np.save(tmp_path / "rows.npy", rows)
    if kind.endswith("npy"):
        np.save(tmp_path / kind, labels)
    else:
        (tmp_path / kind).write_text("\n".join(labels) + "\n")
    read = read_embeddings(tmp_path / "rows.npy", tmp_path / kind)
    assert evaluate(**read.arguments()) == evaluate(rows, labels)


def test_files_that_cannot_be_used(tmp_path):
    def refused(sentence, *names):
        with pytest.raises(BadInput, match=sentence):
            read_embeddings(*(tmp_path / name for name in names))

    np.save(tmp_path / "rows.npy", np.eye(3))
    np.savez(tmp_path / "odd.npz", embedings=np.eye(3))
    np.savez(tmp_path / "bare.npz", embeddings=np.eye(3))
    np.savez(tmp_path / "objects.npz", embeddings=np.eye(1), labels=np.array(["a"], object))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    (tmp_path / "broken.npz").write_bytes(b"PK no archive")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "renamed.npz").write_bytes((tmp_path / "rows.npy").read_bytes())
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    refused("no file '.*none.npz'", "none.npz")
    refused("neither an .npz nor an .npy", "rows.csv")
    refused("holds no 'labels', only embeddings; give a file of labels", "rows.npy")
    refused("holds no 'labels', only embeddings$", "bare.npz")
    refused("holds 'embedings'.*did you mean 'embeddings'", "odd.npz")
    refused("Python objects", "objects.npz")
    refused("Python objects", "objects.npy")
    refused("cannot read", "broken.npz")
    refused("cannot read", "empty.npy")
    refused("^'[^']*' does not hold what its suffix says", "renamed.npz")
    refused("no file '.*none.txt'", "rows.npy", "none.txt")
    refused("cannot read '.*binary.txt'", "rows.npy", "binary.txt")


@pytest.mark.parametrize("head", ["{" * 3000, "__import__('os')", "{'descr': '|O', 'shape': ()}"])
def test_a_forged_header_is_a_sentence(tmp_path, head):
    text = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(24)
    (tmp_path / "a.npy").write_bytes(text)
    with pytest.raises(BadInput, match="cannot read"):
        read_embeddings(tmp_path / "a.npy", tmp_path / "a.npy")
