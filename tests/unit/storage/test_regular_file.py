import os

import pytest

from isopix.storage.regular_file import read_regular


def test_a_file_and_a_link_to_one_are_read(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"content")
    link.symlink_to(file)
    assert read_regular(file) == read_regular(link) == b"content"
    with pytest.raises(ValueError, match=f"{link} is a symbolic link"):
        read_regular(link, follow_links=False)


def test_what_may_never_end_is_refused(tmp_path):
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device, tmp_path):
        with pytest.raises(ValueError, match=f"{path.name} is not a regular file"):
            read_regular(path)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "file"
    with file.open("wb") as opened:
        opened.truncate(1 << 40)  # no byte of it takes space
    with pytest.raises(ValueError, match="file has 1099511627776 bytes; at most 4 are read"):
        read_regular(file, max_bytes=4)
