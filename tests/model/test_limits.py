"""Arrays are weighed before one is unpacked."""

import pytest

from safe2real.errors import InvalidInput
from safe2real.model.serialization import array_from_json, check_unpacked
from safe2real.model.validation import human


def test_packed_arrays_are_weighed_together_before_one_is_unpacked(monkeypatch):
    monkeypatch.setenv("SAFE2REAL_MAX_BYTES", "8000")
    small = {"dtype": "|u1", "shape": [400], "zlib": "never read"}
    check_unpacked({"constraints": [{"utility": small}, [small]]}, "the specification")  # 2 x 400 numbers of 8 bytes
    with pytest.raises(
        InvalidInput, match=r"largest of them constraints\[\d\]\.utility, would take 9.375 KiB, and the limit is"
    ):
        check_unpacked({"constraints": [{"utility": small}] * 3}, "the specification")
    with pytest.raises(InvalidInput, match=r"start, of shape \[1001\], would take .* set SAFE2REAL_MAX_BYTES to more"):
        array_from_json({"dtype": "|b1", "shape": [1001], "zlib": ""}, "start")


def test_sizes_for_people():
    assert [human(size) for size in (0, 1023, 1536, 2**30)] == ["0 bytes", "1023 bytes", "1.5 KiB", "1 GiB"]
    assert human(10**9000) == "more than 2^80 bytes"
