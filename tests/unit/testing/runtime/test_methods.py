"""Batches of streamed lists."""

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.testing.runtime.methods import in_batches


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (2, [2]), (5, [2, 2, 1])])
async def test_batches_hold_all_items_in_order(count: int, sizes: list[int]) -> None:
    """No batch is larger than asked, none is empty, nothing is lost."""
    items = [cri.Image(id=str(number)) for number in range(count)]
    parts = [part async for part in in_batches(items, 2, lambda part: cri.ListImagesResponse(images=part))]
    assert all(isinstance(part, cri.ListImagesResponse) for part in parts)
    images = [list(part.images) for part in parts if isinstance(part, cri.ListImagesResponse)]
    assert [len(part) for part in images] == sizes
    assert [image for part in images for image in part] == items
