"""Chemical formulas and ions are said by letters, numbers and charges, words never are."""

from __future__ import annotations

import pytest

from voxcli.text import normalise

FORMULAS = [
    ("OH⁻ and H₃O⁺", "O H minus and H three O plus"),
    ("Na⁺, Ca²⁺ and SO₄²⁻", "N A plus, C A two plus and S O four two minus"),
    ("NaHCO₃", "N A H C O three"),
    ("NO₂ and C₆H₁₂O₆", "N O two and C six H twelve O six"),
    ("NOₓ and CₙH₂ₙ₊₂", "N O X and C N H two N plus two"),
    ("PM₂.₅ or PM2.5, PM₁₀", "P M two point five or P M two point five, P M ten"),
    ("Ca(OH)₂ and Al₂(SO₄)₃", "C A O H two and A L two S O four three"),
    ("CuSO₄·5H₂O", "C U S O four dot five H two O"),
    ("2H₂ + O₂ → 2H₂O", "two H two plus O two to two H two O"),
    ("V̇O₂max, SpO₂ and HbA₁c", "V O two max, S P O two and H B A one c"),
    ("²³⁵U and ³He", "two hundred thirty-five U and three H E"),
    ("⁹⁰Sr and ⁹⁹ᵐTc", "ninety S R and ninety-nine M T C"),
    # in plain characters
    ("NO2, CH3COOH and CO2", "N O two, C H three C O O H and C O two"),
    ("Fe2O3 and Ca(OH)2", "F E two O three and C A O H two"),
    ("Ca2+, Ca^2+, Na+ and Cl- ions", "C A two plus, C A two plus, N A plus and C L minus ions"),
    ("NaCl, NaOH, HCl and MgO", "N A C L, N A O H, H C L and M G O"),
]  # fmt: skip
OTHERS = [
    ("No2, In3, iOS17, Node20", "No two, In three, iOS seventeen, Node twenty"),
    ("Class CO₂, Henry V’s", "Class C O two, Henry V's"),
    ("VISION5, COVID19", "Vision five, Covid nineteen"),
    ("Vₘₐₓ, Kₘ, log₂ n, Earth₂", "V max, K m, log two n, Earth two"),
    ("K⁻¹ and R⁺", "K to the power of minus one and R plus"),
    ("Section 2(a), P(A)2", "Section two A, P, A, two"),
    ("OH, no! HI. He is In. GPT3.5", "oh, no! H I. He is In. G P T three point five"),
    ("A+ and Cl-based, Disney+", "A plus and Cl-based, Disney plus"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), FORMULAS)
def test_a_formula_is_said_letter_by_letter(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(("written", "spoken"), OTHERS)
def test_other_words_with_figures_are_no_formulas(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken
