"""Chinese texts: formulas, units, powers and marks of notes, with wetext and without it."""

from __future__ import annotations

import pytest

from voxcli.text import chinese, normalise

EXAMPLES = [
    ("1998年¹，研究²表明", "1998年，研究表明"),
    ("10²，10⁶，10⁻³和x²+（y）³", "10的平方，10的6次方，10的负3次方和x的平方加，y, 的立方"),
    ("10²–10³", "10的平方到10的立方"),
    ("OH⁻和SO₄²⁻", "O H 负 和 S O 4 2 负"),
    ("NaHCO₃，PM₂.₅，NaCl", "N A H C O 3，P M 2.5，N A C L"),
    ("5.5 mmol/L，35 µg/m³", "5.5毫摩尔每升，35微克每立方米"),
    ("8 J/(mol·K)", "8焦耳每摩尔每开尔文"),
    ("8 J mol⁻¹ K⁻¹", "8焦耳每摩尔每开尔文"),
    ("10 kΩ，5 mA，9 m/s²", "10千欧，5毫安，9米每平方秒"),
    ("3×10⁸ m/s", "3×10的8次方米每秒"),
    ("~5 kPa，5~10米", "约5千帕，5~10米"),
    ("5 m²，20 km/h，5A景区，5G", "5 m²，20 km/h，5A景区，5G"),  # as wetext knows them
]


@pytest.mark.parametrize(("written", "spoken"), EXAMPLES)
def test_chinese_names_what_has_no_sound(
    written: str, spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chinese, "_wetext", lambda: None)
    assert normalise(written, "zh").text == spoken


def test_wetext_says_the_numbers_that_are_left() -> None:
    text = "5.5 mmol/L，10 kΩ，1000 W/m²，CO₂，10⁻³，5 m²"
    assert normalise(text, "zh").text == (
        "五点五毫摩尔每升，十千欧，一千瓦每平方米，C O 二，十的负三次方，五平方米"
    )


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("50%-60%", "百分之五十到百分之六十"),
        ("第1-3章", "第一到三章"),
        ("GPT-4和COVID-19", "GPT 四和COVID 十九"),
        ("x²+1", "x的平方加一"),
        ("5*3=15", "五乘三等于十五"),
        ("5÷2", "五除以二"),
        ("请拨打+86 138 1234 5678。", "请拨打加八六，一三八，一二三四，五六七八。"),
        ("C++语言", "C++语言"),
        ("气温-3°C到5°C", "气温负三摄氏度到五摄氏度"),
    ],
)
def test_a_dash_or_a_plus_is_a_sign_below_or_above_zero_only_where_it_is_one(
    written: str, spoken: str
) -> None:
    pytest.importorskip("wetext")
    assert normalise(written, "zh").text == spoken
