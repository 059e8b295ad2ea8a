"""Signs that are written in several ways, as the rules know them: simplified characters, straight apostrophes."""

from __future__ import annotations

from typing import Final


def simplify(text: str) -> str:
    """The text with simplified characters and straight apostrophes, one for one, so that positions stay the same.

    >>> simplify("以後別再講這個,我還沒說"), simplify("don’t")
    ('以后别再讲这个,我还没说', "don't")
    """
    return text.translate(_SIMPLIFIED)


# Of Chinese, the characters that are in the rules' words and in common ones.
_TRADITIONAL: Final = (
    "還刪記別說講過沒當請幫這個關於內錢體醫們為麼嗎誰寫譯結總點歲號從來後週國慶準備劃換計現終兩萬習慣時愛歡厭兒閨爺領導對謝厲給續釋樣帶開媽孫姊節"
    "設詞話許討劇剛發圖將權環電碼禮資煩潤題薦訴頁項幾經細統繼夢長覆讓應該簡單語問詳細與業東書買親僅會傳倆冊軍衝則勸務動勞廳歷雙變臺嘆聽唄員餵噴團"
    "聖場聲處頭誇夾婦學寶實盡師幹彈歸錄憶懟惱戲戶託報掛據數無術機殺條構標檔檢樓畢氣潔溫遊滿煉熱貓畫盤離稱籤簽糾約紀紙紋練組紹編縮網羣職腦虛補裝見"
    "規視訂認議論評詐試詩誕談譜賬帳購貼賽車轉辭邊遠遲適郵鄰裏裡針鍾鐘錯間隊陣隨韻順顧預頻額飛馬騙著錶闆"
)
_THEIR_SIMPLIFIED: Final = (
    "还删记别说讲过没当请帮这个关于内钱体医们为么吗谁写译结总点岁号从来后周国庆准备划换计现终两万习惯时爱欢厌儿闺爷领导对谢厉给续释样带开妈孙姐节"
    "设词话许讨剧刚发图将权环电码礼资烦润题荐诉页项几经细统继梦长复让应该简单语问详细与业东书买亲仅会传俩册军冲则劝务动劳厅历双变台叹听呗员喂喷团"
    "圣场声处头夸夹妇学宝实尽师干弹归录忆怼恼戏户托报挂据数无术机杀条构标档检楼毕气洁温游满炼热猫画盘离称签签纠约纪纸纹练组绍编缩网群职脑虚补装见"
    "规视订认议论评诈试诗诞谈谱账账购贴赛车转辞边远迟适邮邻里里针钟钟错间队阵随韵顺顾预频额飞马骗着表板"
)
_SIMPLIFIED: Final = str.maketrans(_TRADITIONAL + "’‘", _THEIR_SIMPLIFIED + "''")
