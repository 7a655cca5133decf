import time

import numpy as np
import pytest
from mistakes import coded

from lab.base.errors import UserError
from lab.emulator.arguments import arguments_from_words


def test_scalars_and_buffers():
    number, flag, filled, output = arguments_from_words(["i32=-5", "u8=0x10", "f32[3,2]=range", "f64[4]=out"])
    assert (number, number.dtype) == (-5, np.int32)
    assert (flag, flag.dtype) == (16, np.uint8)
    np.testing.assert_array_equal(filled.array, [[0, 1], [2, 3], [4, 5]])
    assert filled.initialised
    assert np.isnan(output.array).all()
    assert output.output
    assert not output.initialised


def test_random_fills_repeat():
    first, second = (arguments_from_words(["f32[8]=normal"], seed=3)[0].array for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("word", ["5", "i32", "q32=1", "i32=1.5", "u8=-1", "f32[4]=norml", "f32[]=zeros"])
def test_mistakes(word):
    with pytest.raises(UserError) as error:
        arguments_from_words([word])
    assert error.value.key == "args[0]"


@pytest.mark.parametrize("sizes", ["1000000000000", "268435457", "65536,65536", "9" * 200_000, "1,99999999999"])
def test_a_buffer_that_is_too_large_is_refused_at_once(sizes):
    begin = time.process_time()
    with pytest.raises(UserError, check=coded("out-of-range", key="args[0]")) as caught:
        arguments_from_words([f"f32[{sizes}]=normal"])
    assert caught.value.accepted == "at most 268435456 elements"
    assert len(str(caught.value)) < 300
    assert time.process_time() - begin < 1
