"""Function words of the most used languages: lexical recall leaves them out, and they show a text's language."""

from __future__ import annotations

from typing import Final

# The lists are short on purpose. Published lists of stop words contain words that people remember things by
# ("computer", "home", "work", "fire"), and BM25 gives frequent words a low weight anyway. "may" is left out, since it
# is a month too.
_LISTS: Final[dict[str, str]] = {
    "en": """a about am an and any are as at be because been being both but by can could did do does doing done each
        else few for from had has have having he her here hers herself him himself his how i if in into is it its
        itself just let me might more most must my myself nor not of on or our ours ourselves shall she should so some
        such than that the their theirs them themselves then there these they this those though through to too until
        upon us very was we were what when where which while who whom whose why will with would you your yours
        yourself yourselves""",
    "de": """aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da
        damit dann das dass daß dein deine deinem deinen deiner dem den denn der des dessen dich die dies diese diesem
        diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer eure für
        gegen gewesen hab habe haben hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren
        ihrer im in indem ins ist ja jede jedem jeden jeder jedes jetzt kann kein keine keinem keinen keiner können
        könnte man manche mein meine meinem meinen meiner mich mir mit muss musste nach nicht nichts noch nun nur ob
        oder ohne sehr sein seine seinem seinen seiner seit selbst sich sie sind so solche soll sollte sondern sonst
        über um und uns unser unsere unter viel vom von vor war waren warst was weil welche welchem welchen welcher
        welches wem wen wenn wer werde werden wie wieder wir wird wirst wo wollen wollte wurde wurden würde würden zu
        zum zur zwar zwischen""",
    "fr": """à ai aie as au aura aurait aussi autre aux avait avaient avais avec avez avoir avons ayant c ce ceci cela
        celle celles celui ces cet cette ceux chez comme comment d dans de des donc dont du elle elles en entre es est
        et étaient étais était été êtes être eu eux fait furent fut ici il ils j je l la là le les leur leurs lui m ma
        mais me même mes moi mon n ne ni nos notre nous on ont ou où par parce pas pendant plus pour pourquoi qu quand
        que quel quelle quelles quels qui quoi s sa sans se sera serait ses si soit sommes son sont sous suis sur t ta
        te tes toi ton tous tout toute toutes très tu un une vos votre vous y""",
    "es": """a al algo algunas algunos ante antes aquel aquella así aun aunque como con contra cual cuál cuando cuándo
        de del desde donde dónde dos durante e el él ella ellas ellos en entre era eran eres es esa esas ese eso esos
        esta está están estaba estas este esto estos estoy fue fueron fui ha había han has hasta hay he la las le les
        lo los más me mi mí mis mucho muy nada ni no nos nosotros nuestra nuestro o os otra otro para pero poco por
        porque qué que quien quién se sea ser si sí sido sin sobre somos son soy su sus también tanto te tiene tienen
        todo todos tu tú tus un una uno unos usted ustedes y ya yo""",
    "it": """a abbiamo ad agli ai al alla alle allo anche avere aveva avevano c che chi ci ciò coi col come con contro
        cosa cui d da dagli dai dal dalla dalle dallo degli dei del della delle dello di dove e è ed era erano essere
        fu gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie miei mio ne negli nei nel nella
        nelle nello noi non nostra nostro o perché per più qual quale quando quanto quei quella quelle quelli quello
        questa queste questi questo sarà se sei si sia siamo siete sono sta stata stato su sua sue sugli sui sul sulla
        sulle suo suoi ti tra tu tua tuo tutti tutto un una uno vi voi""",
    "pt": """a à ao aos aquela aquele aquilo as às até com como da das de dela dele deles depois do dos e é ela elas
        ele eles em entre era eram essa essas esse esses esta está estão estas estava este estes eu foi foram há isso
        isto já lhe lhes mais mas me mesmo meu meus minha minhas muito na não nas nem no nos nós nossa nosso num numa
        o onde os ou para pela pelas pelo pelos por porque qual quando que quem são se seja sem ser será seu seus só
        sou sua suas também te tem têm tinha tu tua um uma você vocês""",
    "nl": """aan al alles als altijd ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen had
        heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je jij jou jouw kan kon kunnen maar me meer
        mij mijn moet na naar niet niets nog nu of om omdat onder ons onze ook op over reeds te tegen toch toen tot u
        uit uw van veel voor waar waarom want waren was wat we wel werd wezen wie wij wil worden wordt ze zei zelf
        zich zij zijn zo zonder zou""",
    "sv": """alla allt att av blev bli blir de dem den denna deras dess dessa det detta dig din dina ditt då där efter
        ej eller en er era ert ett från för ha hade han hans har henne hennes hon honom hur här i icke ingen inom inte
        jag kan kunde man med mellan men mig min mina mitt mot mycket ni nu när någon något några och om oss på samma
        sedan sig sin sina sitt själv skulle som så till under upp ut utan vad var vara varför varit vem vi vid vilka
        vilken är över""",
    "da": """af alle alt anden at blev blive bliver da de dem den denne der deres det dette dig din disse dog du efter
        eller en end er et for fra ham han hans har havde have hende hendes her hos hun hvad hvem hvis hvor hvordan
        hvorfor i ikke ind jeg jer jo kunne man mange med meget men mig min mine mit mod ned noget nogle nu når og
        også om op os over på selv sig sin sine sit skal skulle som sådan thi til ud under var vi vil ville vor være
        været""",
    "no": """alle at av bare ble blei bli blir da de deg den denne der deres det dette di din disse ditt du eg ei
        eller en er et etter for fordi fra før ha hadde han hans har henne hennes her hun hva hvem hver hvis hvor
        hvordan hvorfor i ikke ingen inn jeg kan kunne man mange med meg meget mellom men mer mi min mine mitt mot mye
        må ned no noe noen nå når og også om opp oss over på samme seg selv sin sine sitt skal skulle som så til um
        under ut uten var ved vi vil ville vår være vært""",
    "fi": """ei eivät emme en et että ette hän häneen hänellä hänen hänestä hänet he heidän heitä hei ja johon joka
        jonka jos jossa jota jotka joten kanssa keitä ketkä ketä koska kuin kuka kun me meidän meillä meitä mikä miksi
        minkä minulla minun minut minä missä mitkä mitä mukaan mutta myös ne niiden niin niitä noin nuo nyt näiden
        nämä ole olen olet olemme oli olin olivat olla on ovat se sekä sen siellä siinä sille sinulla sinun sinä sitä
        tai te teidän tuo tähän tämä tämän tästä vaan vai vaikka""",
    "tr": """acaba ama aslında az bana bazı belki ben benim beni bir biri birkaç biz bize bizim bu buna bunda bunu
        bunun çok çünkü da daha de defa değil diye en gibi hem hep hepsi her hiç için ile ise kez ki kim mı mi mu mü
        nasıl ne neden nerede nereye niçin niye o olan olarak olduğu ona onlar onu onun sen senin siz şey şu tüm var
        ve veya ya yani""",
    "ru": """а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до его ее
        ей ему если есть еще ещё же за здесь и из или им их к как какая какой когда кто ли либо меня мне много мной мы
        на над нам нас не него нее ней нет ни них но ну о об он она они оно от очень по под после потому почему при
        про с сам себя со так такой там тебе тебя то тобой того тоже той только том тот ты у уже чего чем что чтобы
        эта эти это этого этой этом этот эту я""",
}  # fmt: skip

STOP_WORDS: Final[dict[str, frozenset[str]]] = {
    language: frozenset(words.casefold().split()) for language, words in _LISTS.items()
}
"""ISO 639-1 code → case-folded function words."""

VOTES: Final[dict[str, tuple[str, ...]]] = {
    word: tuple(language for language, words in STOP_WORDS.items() if word in words)
    for word in frozenset().union(*STOP_WORDS.values())
}
"""Function word → the languages it votes for. A word of n languages counts 1/n for each."""

CJK_FUNCTION: Final[frozenset[str]] = frozenset(
    # Chinese pronouns, particles, copulas and the characters of question words (什么 哪 谁 怎 吗 呢) …
    "的了吗呢吧啊呀我你您他她它们很也都就还和与及或是在有被把这那着没不以到从对为什么哪谁怎"
    # … and the hiragana of Japanese particles.
    "のはがをにでとも"
)
"""A bigram made of these characters only says nothing; one with a single content character stays."""

CJK_STOP_BIGRAMS: Final = frozenset(
    "可以 可能 时候 多少 如何 几个 です ます まし した して いる ない から まで".split()  # noqa: SIM905 - a list of words reads better as text
)
"""Bigrams that say nothing although their characters do elsewhere."""
