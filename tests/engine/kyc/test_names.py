"""Names in forms against names in zones and records."""

from __future__ import annotations

import msgspec
import pytest

from engine.kyc.names import Likeness, compare_with_record, compare_with_zone
from tests.support.engine.kyc.build import ZONE


@pytest.mark.parametrize(
    ("given", "family", "zone_given", "zone_family", "likeness"),
    [
        ("Anna Maria", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "SAME"),
        ("ANNA MARIA", "eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "SAME"),
        ("Anna", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "SAME"),
        ("Anna-Maria", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "SAME"),
        ("Annamaria", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "SAME"),
        ("Maria", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "PARTIAL"),
        ("Anna Sofia", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "PARTIAL"),
        ("Sofia", "Eriksson", ["ANNA", "MARIA"], ["ERIKSSON"], "DIFFERENT"),
        ("Anna", "Erikson", ["ANNA", "MARIA"], ["ERIKSSON"], "DIFFERENT"),
        ("Eriksson", "Anna", ["ANNA"], ["ERIKSSON"], "PARTIAL"),
        ("Jürgen", "Müller", ["JUERGEN"], ["MUELLER"], "SAME"),
        ("Jürgen", "Müller", ["JURGEN"], ["MULLER"], "SAME"),
        ("Jürgen", "Müller", ["JUXXRGEN"], ["MUXXLLER"], "SAME"),
        ("Jürgen", "Mueller", ["JUERGEN"], ["MULLER"], "DIFFERENT"),
        ("Søren", "Ångström-Ærø", ["SOEREN"], ["AANGSTROEM", "AEROE"], "SAME"),
        ("Groß", "Weiß", ["GROSS"], ["WEISS"], "SAME"),
        ("Peña", "Núñez", ["PENXXA"], ["NUNEZ"], "SAME"),
        ("José", "García Márquez", ["JOSE"], ["GARCIA", "MARQUEZ"], "SAME"),
        ("José", "García", ["JOSE"], ["GARCIA", "MARQUEZ"], "PARTIAL"),
        ("Aoife", "O’Connor", ["AOIFE"], ["OCONNOR"], "SAME"),
        ("Aoife", "O'Connor", ["AOIFE"], ["O", "CONNOR"], "SAME"),
        ("Łukasz", "Żółć", ["LUKASZ"], ["ZOLC"], "SAME"),
        ("Þór", "Guðmundsson", ["THOR"], ["GUDMUNDSSON"], "SAME"),
        ("Наталья", "Щербакова", ["NATALIA"], ["SHCHERBAKOVA"], "SAME"),
        ("Ганна", "Шевченко", ["HANNA"], ["SHEVCHENKO"], "SAME"),
        ("小明", "王", ["XIAOMING"], ["WANG"], "INCOMPARABLE"),
        ("Anna 2", "Eriksson", ["ANNA"], ["ERIKSSON"], "INCOMPARABLE"),
        ("Suharto", "Suharto", [], ["SUHARTO"], "PARTIAL"),
    ],
)
def test_likeness_of_names_and_a_zone(
    given: str, family: str, zone_given: list[str], zone_family: list[str], likeness: str
) -> None:
    zone = msgspec.structs.replace(ZONE, surname=tuple(zone_family), given=tuple(zone_given))
    assert compare_with_zone(given, family, zone) is Likeness[likeness]


@pytest.mark.parametrize(
    ("given", "family", "zone_given", "zone_family", "likeness"),
    [
        ("Nilavadhanananda Chayapa", "Dejthamrong", ["NILAVADHANANANDA", "CHAYAP"], ["DEJTHAMRONG"], "SAME"),
        ("Nilavadhanananda Chayapa", "Dejthamrong", ["NILAVADHANANANDA", "C"], ["DEJTHAMRONG"], "SAME"),
        ("Nilavadhanananda Chayapa", "Dejthamrong Krasuang", ["N", "C"], ["DEJTHAMRONG", "KRA"], "SAME"),
        ("Jürgen", "Müller", ["J"], ["MU"], "SAME"),
        ("Jürgen", "Müller", ["JUE"], ["MUELLE"], "SAME"),
        ("Jürgen", "Müller", ["K"], ["MUELLER"], "DIFFERENT"),
        ("Jürgen", "Müller", ["JUERGENS"], ["MUELLER"], "DIFFERENT"),
    ],
)
def test_likeness_of_names_and_a_zone_with_cut_names(
    given: str, family: str, zone_given: list[str], zone_family: list[str], likeness: str
) -> None:
    zone = msgspec.structs.replace(ZONE, surname=tuple(zone_family), given=tuple(zone_given), names_cut=True)
    assert compare_with_zone(given, family, zone) is Likeness[likeness]


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        ("Müller", "MUELLER", "SAME"),
        ("Müller", "Muller", "SAME"),
        ("O'Connor", "Oconnor", "SAME"),
        ("Anna Maria", "Anna-Maria", "SAME"),
        ("Anna Maria", "Anna", "PARTIAL"),
        ("Anna", "Sofia", "DIFFERENT"),
        ("王", "王", "SAME"),
        ("王", "李", "INCOMPARABLE"),
        ("王", "Wang", "INCOMPARABLE"),
    ],
)
def test_likeness_of_names_and_a_record(one: str, other: str, likeness: str) -> None:
    assert compare_with_record(one, other) is Likeness[likeness]
    assert compare_with_record(other, one) is Likeness[likeness]
