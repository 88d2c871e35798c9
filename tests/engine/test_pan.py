"""Card numbers: check digits and masking."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pan import Masked, Pan, body_digits, build_pan, luhn_digit, luhn_valid

NUMBER = "4111111111111111"


@pytest.mark.parametrize("number", [NUMBER, "5555555555554444", "378282246310005", "6011111111111117", "0"])
def test_published_card_numbers_are_valid(number: str) -> None:
    assert luhn_valid(number)


@pytest.mark.parametrize("number", ["4111111111111112", "41111111 1111111", "", "٤١١١", "4111-11"])
def test_wrong_check_digits_and_other_texts_are_invalid(number: str) -> None:
    assert not luhn_valid(number)


@given(st.text("0123456789", min_size=1, max_size=18), st.data())
def test_single_wrong_digit_is_detected(body: str, data: st.DataObject) -> None:
    number = body + luhn_digit(body)
    place = data.draw(st.integers(0, len(number) - 1))
    other = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != number[place]]))
    assert luhn_valid(number)
    assert not luhn_valid(number[:place] + other + number[place + 1 :])


@given(st.sampled_from(["411111", "51234567"]), st.data())
def test_number_begins_with_its_prefix(iin: str, data: st.DataObject) -> None:
    size = body_digits(iin)
    pan = build_pan(iin, data.draw(st.text("0123456789", min_size=size, max_size=size)))
    assert len(pan) == 16
    assert pan.startswith(iin)
    assert luhn_valid(pan[:])


@pytest.mark.parametrize("body", ["12345678", "1234567890", "12345678x"])
def test_error_does_not_show_the_wrong_body(body: str) -> None:
    with pytest.raises(ValueError, match="9 further digits") as refused:
        build_pan("411111", body)
    assert body not in str(refused.value)


@pytest.mark.parametrize("masked", [Pan(NUMBER), Masked(NUMBER), Pan(Pan(NUMBER)), Masked(Pan(NUMBER))])
def test_printed_masked_text_is_the_mask(masked: Masked) -> None:
    shown = [
        repr(masked),
        str(masked),
        f"{masked}",
        f"{masked:>20}",
        f"{masked!r}",
    ]
    shown += [repr([masked]), repr({"pan": masked}), "{}".format(masked), str(ValueError(masked))]  # noqa: UP032
    assert not any(NUMBER[:6] in text for text in shown)


def test_masked_text_keeps_its_characters() -> None:
    pan = Pan(NUMBER)
    assert pan == NUMBER
    assert hash(pan) == hash(NUMBER)
    assert pan.last4 == "1111"
    assert pan.encode() == NUMBER.encode()
    assert pan + "-" == f"{NUMBER}-"
    assert pickle.loads(pickle.dumps(pan)) == NUMBER
    assert type(pickle.loads(pickle.dumps(pan))) is Pan
    assert json.loads(json.dumps(pan)) == NUMBER
