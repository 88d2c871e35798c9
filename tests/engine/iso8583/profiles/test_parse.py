"""Profile files: each error names file, line and member."""

from __future__ import annotations

import pytest

from engine.iso8583.profiles import ProfileError, parse_profile


def test_empty_profile_is_its_base() -> None:
    profile = parse_profile('name = "own"\nbased_on = "iso93-ascii"\n', "own.toml")
    assert (profile.name, profile.version) == ("own", "1993")


# Each row: text, line, member and problem. The line counts from the member "name", which is the first.
WRONG = [
    ("identity = [7, 11", 2, "", "Unclosed array"),
    ("x = = 1", 2, "", "Invalid value"),
    ("colour = 1", 1, "", "unknown field `colour`"),
    ("[frame]\nlength = 'ascii-5'", 3, "frame.length", "Invalid enum value"),
    ("[frame]\nsize = 'ascii-4'", 2, "frame", "unknown field `size`"),
    ("[frame]\nlength = 'in-header'", 2, "frame.length_at", "outside the header of 0 bytes"),
    ("[header]\nvalue = '60x'", 3, "header.value", "hexadecimal"),
    (f"[header]\nvalue = '{'00' * 65}'", 3, "header.value", "more than 64 bytes"),
    ("[header]\nvalue = '6000010002'\nswaps = [[1, 2, 2]]", 4, "header.swaps", "overlap"),
    ("[encodings]\ntext = 'cp1'", 3, "encodings.text", "Invalid enum value"),
    ("[elements.48]\nformat = 'q9'", 3, "elements.48.format", "is not a format"),
    ("[elements.129]\nformat = 'n3'", 2, "elements.129", "from 2 to 128"),
    ("[elements.65]\nformat = 'n3'", 2, "elements.65", "bitmap"),
    ("[elements]\n4 = { format = 'absent' }", 3, "elements.4", "needed in every profile"),
    ("[elements]\n48 = { size = 3 }", 3, "elements.48", "unknown field `size`"),
    ("[elements]\n48 = { encoding = 'raw' }", 3, "elements.48.encoding", "does not suit"),
    ("[elements]\n48 = { encoding = 'bcd-left' }", 3, "elements.48.encoding", "packs digits"),
    ("[elements]\n52 = { encoding = 'ascii' }", 3, "elements.52.encoding", "does not suit"),
    ("[messages]\nauthorization = ['0100']", 2, "messages.advice", "has no MTI"),
    ("[messages]\nsale = ['0100']", 2, "messages", "Invalid enum value 'sale'"),
    ("[private]\ncolour = { field = 48 }", 3, "private.colour", "is not one of cvv2"),
    ("[private]\ncvv2 = { field = 65 }", 3, "private.cvv2", "not in the profile"),
    ("[private]\ncvv2 = { field = '48' }", 3, "private.cvv2.field", "Expected `int`, got `str`"),
    ("[private]\ncvv2 = { field = 48, at = 3 }", 3, "private.cvv2", "both at and length"),
    (
        "[private]\ncvv2 = { field = 48, at = 998, length = 3 }",
        3,
        "private.cvv2",
        "outside the 999 characters",
    ),
    ("[private]\ncvv2 = { field = 48, tag = '01' }", 3, "private.cvv2", "tag and [tlv.48]"),
    (
        "[tlv.48]\ntag_chars = 3\nlength_chars = 2\n[private]\ncvv2 = { field = 48, tag = '01' }",
        6,
        "private.cvv2",
        "another width",
    ),
    ("[tlv.48]\ntag_chars = 3", 2, "tlv.48", "missing required field `length_chars`"),
    (
        "[response_codes.reasons]\nbad_mood = '99'",
        3,
        "response_codes.reasons.bad_mood",
        "not a decline reason",
    ),
    ("[response_codes.codes]\n'51' = '116'", 2, "response_codes", "does not fit field 39"),
    ("identity = [7, 11, 37]", 2, "identity", "needs field 32"),
    ("identity = [4, 7, 11, 32]", 2, "identity", "field 4 is not repeated"),
    ("increments = 'both'", 2, "increments", "Invalid enum value"),
    ("echo = [7, 11, 32, 37]", 2, "echo", "needs field 70"),
    ("echo = [7, 11, 32, 37, 39, 70]", 2, "echo", "field 39"),
    ("echo = [7, 11, 32, 37, 63, 70]\n[private]\nauthorization_id = { field = 63 }", 2, "echo", "field 63"),
    (
        "[private]\nauthorization_id = { field = 44 }",
        1,
        "elements.44",
        "cannot carry an answer: has 36 characters, at most 25 fit",
    ),
    (
        "[private]\nauthorization_id = { field = 60, at = 0, length = 20 }",
        3,
        "private.authorization_id",
        "too short",
    ),
    (
        "[elements]\n39 = { format = 'n2', encoding = 'bcd-right' }",
        3,
        "elements.39",
        "cannot carry an answer",
    ),
    ("[elements]\n4 = { format = 'n10' }", 3, "elements.4", "cannot carry an answer"),
    ("based_on = 'visa'", 2, "based_on", "is not one of iso87-ascii"),
    ("version = '1993'", 2, "version", "that it is based on"),
]


@pytest.mark.parametrize(("text", "line", "member", "problem"), WRONG)
def test_error_names_file_line_and_member(text: str, line: int, member: str, problem: str) -> None:
    with pytest.raises(ProfileError) as failed:
        parse_profile(f'name = "own"\n{text}\n', "own.toml")
    error = failed.value
    assert problem in error.problem
    assert (error.file, error.line, error.member) == ("own.toml", line, member)
    assert str(error).startswith(f"own.toml:{line}: {member}")
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "missing required field `name`"), ('name = "iso87-ascii"', "the name of a shipped profile")],
)
def test_name_is_needed_and_own(text: str, problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        parse_profile(text, "own.toml")
