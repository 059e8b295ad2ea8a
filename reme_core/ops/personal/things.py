"""Everyday things by one name in either language, so that 我不再喝咖啡了 ends "I love coffee".

Only a value that is nothing but the thing is translated: a word within a longer phrase may mean something else (咖啡馆
is no coffee), and a wrong translation would close a memory that still holds.
"""

from __future__ import annotations

from typing import Final


def in_english(value: str) -> str:
    """The English name of a thing that is named in Chinese; any other value as it is.

    >>> in_english("咖啡"), in_english("咖啡馆"), in_english("coffee")
    ('coffee', '咖啡馆', 'coffee')
    """
    return _THINGS.get(value.strip(), value)


_NAMES: Final = """
coffee: 咖啡; black coffee: 黑咖啡; latte: 拿铁; tea: 茶 喝茶; green tea: 绿茶; black tea: 红茶;
milk tea: 奶茶; milk: 牛奶; soy milk: 豆浆; juice: 果汁; cola: 可乐; soda: 汽水;
alcohol: 酒 喝酒; liquor: 白酒; beer: 啤酒; red wine: 红酒; wine: 葡萄酒; whisky: 威士忌;
meat: 肉 吃肉; red meat: 红肉; beef: 牛肉; pork: 猪肉; lamb: 羊肉; chicken: 鸡肉;
sashimi: 生鱼片; seafood: 海鲜; shrimp: 虾; crab: 螃蟹; eggs: 鸡蛋; tofu: 豆腐; cheese: 奶酪;
yogurt: 酸奶; butter: 黄油; bread: 面包; rice: 米饭; noodles: 面条; dumplings: 饺子;
hot pot: 火锅; pizza: 披萨; burgers: 汉堡; sushi: 寿司; salad: 沙拉; vegetables: 蔬菜;
fruit: 水果; apples: 苹果; bananas: 香蕉; mangoes: 芒果; strawberries: 草莓; durian: 榴莲;
tomatoes: 西红柿 番茄; potatoes: 土豆; mushrooms: 蘑菇; onions: 洋葱; garlic: 大蒜;
coriander: 香菜; peanuts: 花生; nuts: 坚果; chocolate: 巧克力; ice cream: 冰淇淋; cake: 蛋糕;
sugar: 糖; sweets: 甜食; desserts: 甜点; snacks: 零食; spicy food: 辣 吃辣 辣的; fast food: 快餐;
smoking: 烟 抽烟 吸烟; running: 跑步; swimming: 游泳; hiking: 爬山 徒步; mountaineering: 登山;
climbing: 攀岩; cycling: 骑车 骑自行车; yoga: 瑜伽; meditation: 冥想; working out: 健身;
skiing: 滑雪; dancing: 跳舞; singing: 唱歌; painting: 画画; photography: 摄影;
reading: 阅读 看书; cooking: 做饭 烹饪; baking: 烘焙; gardening: 园艺; travelling: 旅行 旅游;
shopping: 购物; football: 足球 踢足球; basketball: 篮球; tennis: 网球; badminton: 羽毛球;
table tennis: 乒乓球; volleyball: 排球; golf: 高尔夫; chess: 国际象棋; piano: 钢琴; guitar: 吉他;
violin: 小提琴; video games: 游戏 电子游戏; television: 电视; films: 电影; music: 音乐;
classical music: 古典音乐; jazz: 爵士乐; rock music: 摇滚乐; working overtime: 加班;
staying up late: 熬夜; getting up early: 早起; dogs: 狗; cats: 猫
"""
_THINGS: Final = {
    chinese: english
    for english, names in (entry.split(": ") for entry in " ".join(_NAMES.split()).split("; "))
    for chinese in names.split()
}
