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
    ("~5 kPa，5~10米", "约5千帕，5到10米"),
    ("5 m²，20 km/h，5A景区，5G", "5平方米，20 km/h，5A景区，5G"),
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
        "五点五毫摩尔每升，十千欧，一千瓦每平方米，C O 二、十的负三次方，五平方米"
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


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        # years
        ("1937—1945年的战争", "一九三七到一九四五年的战争"),
        ("1998年-2003年", "一九九八年到二零零三年"),
        ("1998至2003年", "一九九八至二零零三年"),
        ("鲁迅（1881-1936）是作家", "鲁迅，一八八一到一九三六，是作家"),
        ("2024-2025学年", "二零二四到二零二五学年"),
        ("2024-25赛季和2023/24赛季", "二零二四到二五赛季和二零二三到二四赛季"),
        ("1000-2000年前", "一千到两千年前"),
        ("2000-3000元", "两千到三千元"),
        ("2024-05-01", "二零二四年五月一日"),
        # results of games
        ("比分3-2，主队赢了", "比分三比二，主队赢了"),
        ("以3-1战胜日本队", "以三比一战胜日本队"),
        ("两队1：1战平，3∶2", "两队一比一战平，三比二"),
        ("3比2", "三比二"),
        ("5-3=2", "五减三等于二"),
        ("他在3-201室", "他在三杠二零一室"),
        ("GB/T 1234-2020", "GB/T 一二三四杠两千零二十"),
        # ranges
        ("气温-5℃~3℃。", "气温负五摄氏度到三摄氏度。"),
        ("5-10℃", "五到十摄氏度"),
        ("上涨10%~20%。", "上涨百分之十到百分之二十。"),
        ("占10-20%", "占百分之十到百分之二十"),
        ("上午9:00-11:30开会", "上午九点到十一点三十分开会"),
        ("8:00—18:00", "八点到十八点"),
        ("20～30人，100—200元", "二十到三十人，一百到两百元"),
        ("¥100-¥200", "一百元到两百元"),
        ("12月3日—5日，周一-周五", "十二月三日到五日，周一到周五"),
        ("~5公里", "约五公里"),
        # telephones and codes
        ("请拨打010-12345678", "请拨打零一零，一二三四五六七八"),
        ("(0755)1234567", "零七五五，一二三四五六七"),
        ("+86 13812345678", "加八六，一三八一二三四五六七八"),
        ("验证码123456，房间号302", "验证码一二三四五六，房间号三零二"),
        # signs
        ("歼-20和东风-41", "歼二十和东风四十一"),
        ("海拔-154米，为-40", "海拔负一百五十四米，为负四十"),
        ("+5%，-3.5%，±3%，+/-3%", "正百分之五，负百分之三点五，正负百分之三，正负百分之三"),
        ("血型O-，A+", "血型O阴性，A阳性"),
        ("成绩A-和B+。", "成绩A减和B加。"),
        ("评级B-。", "评级B减。"),
        ("1/2杯，½杯，2½杯", "二分之一杯，二分之一杯，二又二分之一杯"),
        ("3㎡，10㎞，120m²", "三平方米，十公里，一百二十平方米"),
        ("12,345.67元", "一万二千三百四十五点六七元"),
        ("$1.5万，HK$1.5亿，₩100", "一点五万美元，一点五亿港元，一百韩元"),
        ("血压120/80mmHg", "血压一百二十比八十毫米汞柱"),
        ("x<5，π≈3.14，√2，2^10", "x小于五，π约等于三点一四，根号二、二的十次方"),
        ("C++17，GPT-4", "C++ 十七，GPT 四"),
        ("北纬39°54′", "北纬三十九度五十四分"),
        ("9·11和5‰", "九一一和千分之五"),
        ("版本2.0.1和3050.12点", "版本二点零点一和三千零五十点一二点"),
        ("凌晨0:30，0:2", "凌晨零点三十分、零比二"),
        ('她说："好！"——走了3步', '她说："好！"——走了三步'),
        ("《1917》，100g，5g网络，12.34元/股", "《一九一七》，一百克，五g网络，十二点三四元每股"),
        ("http://a.cn/b?x=1&y=2", "http://a.cn/b?x=一&y=二"),
        ("发到a12@163.com", "发到a一二@一六三.com"),
    ],
)
def test_what_stands_between_two_numbers_is_said_in_chinese(written: str, spoken: str) -> None:
    pytest.importorskip("wetext")
    assert normalise(written, "zh").text == spoken


@pytest.mark.parametrize(
    "text", ["1937—1945年", "比分3-2。", "10%~20%", "歼-20", "½", "-5%", "120m²"]
)
def test_chinese_that_was_said_stays(text: str) -> None:
    pytest.importorskip("wetext")
    once = normalise(text, "zh").text
    assert normalise(once, "zh").text == once
