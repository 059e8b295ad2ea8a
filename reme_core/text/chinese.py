"""Chinese characters: the traditional ones of common words, read as the simplified ones that the rules know."""

from __future__ import annotations

from typing import Final


def simplify(text: str) -> str:
    """The text with simplified characters, one for one, so that positions stay the same.

    >>> simplify("以後別再講這個,我還沒說")
    '以后别再讲这个,我还没说'
    """
    return text.translate(_SIMPLIFIED)


_SIMPLIFIED: Final = str.maketrans(
    "還刪記別說講過沒當請幫這個關於內錢體醫們為麼嗎誰寫譯結總點歲號從來後週國慶準備劃換計現終兩萬習慣時愛歡厭兒閨爺領導對謝厲給續釋樣帶開媽孫姊節設詞話許討劇剛發圖將權環電碼禮資煩潤題薦訴頁項幾經細統繼夢長覆讓應該簡單語問詳細",
    "还删记别说讲过没当请帮这个关于内钱体医们为么吗谁写译结总点岁号从来后周国庆准备划换计现终两万习惯时爱欢厌儿闺爷领导对谢厉给续释样带开妈孙姐节设词话许讨剧刚发图将权环电码礼资烦润题荐诉页项几经细统继梦长复让应该简单语问详细",
)
