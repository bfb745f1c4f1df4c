"""Units by sign, product, quotient and power of ten, with a number and without one."""

from __future__ import annotations

import pytest

from voxcli.text import normalise

EXAMPLES = [
    # quotients
    ("8.3 J/(mol·K)", "eight point three joules per mole per kelvin"),
    ("8.3 J mol⁻¹ K⁻¹", "eight point three joules per mole per kelvin"),
    ("0.6 W/(m K)", "zero point six watts per meter per kelvin"),
    ("4 J/(g·°C)", "four joules per gram per degree Celsius"),
    ("95 mg/dL and 5 mmol/L", "ninety-five milligrams per deciliter and five millimoles per liter"),
    ("5 kWh/a", "five kilowatt hours per year"),
    ("9 kWh/(m²·a)", "nine kilowatt hours per square meter per year"),
    ("5 W/m²", "five watts per square meter"),
    ("3 t/ha, 5 t of it", "three metric tons per hectare, five metric tons of it"),
    ("8 CFU/mL, 60 beats/min", "eight colony-forming units per milliliter, sixty beats per minute"),
    ("9 g CO₂/km", "nine grams C O two per kilometer"),
    ("$5/kWh or 0.30 €/kWh", "five dollars per kilowatt hour or thirty cents per kilowatt hour"),
    # products
    ("50 N·m, 3 kW·h", "fifty newton meters, three kilowatt hours"),
    ("2 N·m²/kg²", "two newton square meters per kilogram squared"),
    # prefixes
    ("10 kΩ, 4 MΩ, 5 µF", "ten kilohms, four megohms, five microfarads"),
    ("3 mSv, 5 GPa, 2 kN", "three millisieverts, five gigapascals, two kilonewtons"),
    ("5 µM, 300 lx, 2 THz", "five micromolar, three hundred lux, two terahertz"),
    ("120/80 mmHg", "one hundred twenty over eighty millimeters of mercury"),
    # about
    ("~5 m², ~$5, ~20%", "about five square meters, about five dollars, about twenty percent"),
    ("~ 3 h or ~-5 °C", "about three hours or about minus five degrees Celsius"),
    ("~/bin, ~john", "tilde slash bin, john"),
    # powers of ten, spans and differences
    ("10²–10³ or 10²-10³", "ten squared to ten cubed or ten squared to ten cubed"),
    ("10⁻³–10⁻² m", "ten to the power of minus three to ten to the power of minus two meters"),
    ("3 × 10⁸ m/s", "three times ten to the power of eight meters per second"),
    ("6×10²³ mol⁻¹", "six times ten to the power of twenty-three per mole"),
    ("x²-y² and 5² − 3", "x squared minus y squared and five squared minus three"),
    ("5 kg–10 kg", "five kilograms to ten kilograms"),
    ("50 m²-80 m²", "fifty square meters to eighty square meters"),
    # without a number
    ("J/(mol·K), mg/dL", "joules per mole per kelvin, milligrams per deciliter"),
    ("g/mol, €/kg", "grams per mole, euro per kilogram"),
    ("N·m, kg·m²/s²", "newton meters, kilogram square meters per second squared"),
    # no units
    ("5 A/V inputs, T/F, W/L", "five A slash V inputs, T slash F, W slash L"),
    ("300 K, 5 M, 5 N Main", "three hundred K, five M, five N Main"),
    ("this/day, max/min", "this slash day, max slash min"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), EXAMPLES)
def test_a_unit_is_said_in_full(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken
