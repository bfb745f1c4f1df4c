"""Superscripts, subscripts and units with powers, in English: each is said by what it is."""

from __future__ import annotations

import pytest

from voxcli.text import normalise

EXAMPLES = [
    # powers
    ("xⁿ", "x to the power of n"),
    ("2ⁿ⁻¹", "two to the power of n minus one"),
    ("xⁿy", "x to the power of n y"),
    ("e⁻ˣ", "e to the power of minus x"),
    ("x²ⁿ", "x to the power of two n"),
    ("(a+b)ⁿ", "a plus b, to the power of n"),
    ("x^(n+1)", "x to the power of n plus one"),
    ("a²b⁴", "a squared b to the power of four"),
    ("tanh² x, sin⁻¹ x", "tanh squared x, sin to the power of minus one x"),
    ("1ˢᵗ, 2ⁿᵈ and nᵗʰ", "first, second and nth"),
    ("2¹⁄₂ cups", "two and a half cups"),
    ("10 meters² per second²", "ten meters squared per second squared"),
    ("½mv²", "one half mv squared"),
    # indices
    ("xᵢ, aₙ₊₁ and Xₘₐₓ", "x i, a n plus one and X max"),
    ("x₁²", "x one squared"),
    ("v₁² = v₀² + 5", "v one squared equals v zero squared plus five"),
    ("10⁻¹¹ and 2⁻¹⁰", "ten to the power of minus eleven and two to the power of minus ten"),
    ("3 × 10⁸ but 3 × 10 m", "three times ten to the power of eight but three by ten meters"),
    ("2×10⁻³ and 5 × 10²", "two times ten to the power of minus three and five times ten squared"),
    ("T₁/₂", "T one half"),
    # units
    ("9.8 m/s²", "nine point eight meters per second squared"),
    ("9.8 m/s2 or 9.8 m/s^2", " or ".join(["nine point eight meters per second squared"] * 2)),
    ("9.81 m·s⁻²", "nine point eight one meters per second squared"),
    ("1 kg/m³", "one kilogram per cubic meter"),
    ("30 µg/m³", "thirty micrograms per cubic meter"),
    ("5 kWh/m²/yr", "five kilowatt hours per square meter per year"),
    ("50 km²/day", "fifty square kilometers per day"),
    ("3 W m⁻²", "three watts per square meter"),
    ("60 min⁻¹", "sixty per minute"),
    ("2 s²", "two seconds squared"),
    ("6 l/100 km", "six liters per one hundred kilometers"),
    ("5 lb/in²", "five pounds per square inch"),
    ("120 people/km²", "one hundred twenty people per square kilometer"),
    ("$5/m²", "five dollars per square meter"),
    # units without a number
    ("m², km² and cm³", "square meters, square kilometers and cubic centimeters"),
    ("per m², half a km²", "per square meter, half a square kilometer"),
    ("m/s, km/h and m/s²", "meters per second, kilometers per hour and meters per second squared"),
    ("kWh/m²/yr", "kilowatt hours per square meter per year"),
    ("g/cm³", "grams per cubic centimeter"),
    ("speed (km/h)", "speed, kilometers per hour"),
    ("m² + n² and E = m²", "m squared plus n squared and E equals m squared"),
    ("KB/MB, s/he and m/f", "K B slash M B, s slash he and m slash f"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), EXAMPLES)
def test_what_is_raised_is_said_by_its_kind(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken
