import hashlib

import pytest

from lookalike.data.download import download
from lookalike.errors import LookalikeError

BODY = bytes(range(256)) * 12_000  # three chunks of a megabyte
MD5 = hashlib.md5(BODY).hexdigest()


@pytest.fixture
def fetch(site, tmp_path):
    site.files["a.tgz"] = BODY
    target = tmp_path / "deep" / "a.tgz"

    def run(**options):
        return download(f"{site.url}/a.tgz?download=1", target, pause_seconds=0, **options)

    return run, target


def only(target):
    """Nothing else lies beside the file."""
    return [entry.name for entry in target.parent.iterdir()] == [target.name]


def test_fetches_with_progress(fetch):
    run, target = fetch
    seen = []
    assert run(md5=MD5, progress=lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert only(target)


def test_what_is_there_is_not_fetched_again(fetch, site):
    run, target = fetch
    run(md5=MD5)
    assert not run(md5=MD5)
    assert len(site.asked) == 1
    target.write_bytes(b"something else")
    with pytest.raises(LookalikeError, match=r"wrong checksum.*remove it"):
        run(md5=MD5)
    assert target.exists()


def test_a_broken_connection_is_taken_up_where_it_broke(fetch, site):
    run, target = fetch
    site.cut_after = [1_000_000, 500_000]
    run(md5=MD5)
    assert target.read_bytes() == BODY
    assert site.asked == [None, "bytes=1000000-", "bytes=1500000-"]
    assert only(target)


def test_a_later_call_goes_on(fetch, site):
    run, target = fetch
    site.cut_after = [700_000, 0, 0, 0]
    with pytest.raises(LookalikeError, match=r"700,000 bytes are kept.*run the same command again"):
        run()
    assert not target.exists()
    run()
    assert site.asked[-1] == "bytes=700000-"
    assert target.read_bytes() == BODY


def test_a_server_without_ranges_starts_over(fetch, site):
    run, target = fetch
    site.ranges = False
    site.cut_after = [1_000_000]
    run(md5=MD5)
    assert target.read_bytes() == BODY
    assert len(site.asked) == 2


def test_two_versions_are_never_joined(fetch, site):
    run, target = fetch
    site.cut_after = [1_000_000, 0, 0, 0]
    with pytest.raises(LookalikeError):
        run()
    site.files["a.tgz"], site.etag = BODY[::-1], '"two"'
    run()
    assert target.read_bytes() == BODY[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_mark_only_a_checksum_allows_to_go_on(fetch, site, etag):
    run, target = fetch
    site.etag = etag
    site.cut_after = [1_000_000]
    run(md5=MD5)
    assert site.asked[-1] == "bytes=1000000-"
    target.unlink()
    site.cut_after = [1_000_000]
    run()
    assert site.asked[-1] is None
    assert target.read_bytes() == BODY


def test_a_complete_part_is_recognised(fetch, site):
    run, target = fetch
    target.parent.mkdir()
    target.with_name("a.tgz.part").write_bytes(BODY)
    run(md5=MD5)
    assert site.asked == [f"bytes={len(BODY)}-"]
    assert target.read_bytes() == BODY


def test_a_part_that_is_too_long_is_thrown_away(fetch):
    run, target = fetch
    target.parent.mkdir()
    target.with_name("a.tgz.part").write_bytes(BODY + b"more")
    run(md5=MD5)
    assert target.read_bytes() == BODY


def test_another_part_than_asked_for_is_not_taken(fetch, site):
    run, target = fetch
    site.cut_after, site.shift = [1_000_000], 7
    run(md5=MD5)
    assert target.read_bytes() == BODY


def test_a_wrong_checksum_throws_the_file_away(fetch):
    run, target = fetch
    with pytest.raises(LookalikeError, match=f"MD5 {MD5}, expected 0000"):
        run(md5="0000")
    assert list(target.parent.iterdir()) == []


def test_refusals_are_told_at_once(fetch, site):
    run, _ = fetch
    site.status = 403
    with pytest.raises(LookalikeError, match=r"cannot download http.*403"):
        run()
    assert len(site.asked) == 1


def test_a_server_in_trouble_is_asked_again(fetch, site):
    run, _ = fetch
    site.status = 503
    with pytest.raises(LookalikeError, match="503"):
        run()
    assert len(site.asked) == 3


def test_nobody_there(tmp_path):
    with pytest.raises(LookalikeError, match="cannot download"):
        download("http://127.0.0.1:9/x", tmp_path / "x", pause_seconds=0)
