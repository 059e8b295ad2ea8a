"""What an English sentence claims about its speaker, by rule: one clause, one pattern, one claim.

A pattern has to match from the start of a clause, behind nothing but filler and words of time, so that "he says I live
in Rome" claims nothing. Clauses are turned into the third person: "I like my tea hot" → "The user likes their tea hot".
"""

# ruff: noqa: E501 -- a pattern reads better whole

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from reme_core.ops.personal.claims import TASTE, Claim
from reme_core.ops.personal.english_grammar import ADVERBS, HABITS, third_person
from reme_core.text.terms import terms

Build = Callable[[re.Match[str], str], list[Claim]]


def claims(sentence: str, person: str = "") -> list[Claim]:
    """The claims of a sentence that states something (`reality.states`).

    Args:
        sentence: In English, with straight apostrophes.
        person: How to call the speaker; default "The user".

    >>> [claim.content for claim in claims("Well, I moved to Berlin and I love my new flat.")]
    ['The user moved to Berlin', 'The user loves their new flat']
    """
    who = person or "The user"
    found = []
    for clause in _clauses(sentence):
        for pattern, build in _PATTERNS:
            if match := pattern.match(clause):
                found += build(match, who)
                break
    return found


# --- clauses --------------------------------------------------------------------------------------------------------

_FILLER: Final = (
    r"(?:hi|hello|hey|yes|yeah|yep|no|oh|ah|well|so|ok(?:ay)?|and|but|also|actually|by the way|btw|fyi|honestly|anyway"
    r"|you know(?: what)?|guess what|(?:big|good|great|bad|sad|some) news|news|update|finally|in fact|just so you know"
    r"|for the record|(?:please )?(?:remember|note|keep in mind)(?: that)?|unfortunately|luckily|sadly|thanks|thank you"
    r"|a quick (?:note|update)|correction|because|since|after all|it turns out(?: that)?|turns out|to be honest|tbh|sorry"
    r"|about me|a bit about me|personally|in general|overall|I have to say|I must say|I can tell you|as you know)"
)
_TIME: Final = (
    r"(?:today|yesterday|now|currently|these days|nowadays|recently|lately|at the moment|right now|tonight|this time"
    r"|(?:last|this) \w+|in \d{4}|in [A-Z]\w+(?: \d{4})?|on [A-Z]\w+(?: \w+)?|(?:a|two|three|four|five|six|\d+|some|a few) "
    r"(?:days?|weeks?|months?|years?) ago|since [\w ]{3,15}|as of \w+(?: \w+)?|(?:every|most|each) \w+|for \w+ years"
    r"|in the (?:morning|afternoon|evening|summer|winter)s?|on (?:week(?:end|day)s)|from (?:now|today) on)"
)
_LEAD: Final = re.compile(rf"(?:(?:{_FILLER}|{_TIME})\b\s*[,!:.…—-]*\s*)+(?=(?:I\b|[Mm]y\b|[Cc]all\b))", re.IGNORECASE)
_CLAUSE_ENDS: Final = re.compile(
    r"\s*[,;:]?\s+(?:and|but|so|because|although|though|while|since|which is why|plus)\s+(?:(?:now|also|then|yes) )?"
    r"(?=(?:I\b|my\b|I'))"
    r"|\s*[,;:—–]\s*(?=I\b)|\s+[—–-]+\s+|\s*;\s*|\s*[,]?\s+(?:and|but) (?=(?:now )?(?:work|live|moved|started|joined)\b)"
)


def _clauses(sentence: str) -> Iterator[str]:
    subject = ""
    for part in _CLAUSE_ENDS.split(sentence.strip().strip('"')):
        clause = part.strip()
        lead = _LEAD.match(clause)
        if lead:
            clause = clause[lead.end() :]
        elif subject and re.match(r"(?:now )?(?:work|live|moved|started|joined)\b", clause):
            clause = f"I {clause}"
        subject = "I" if re.match(r"I\b", clause) else ""
        if clause:
            yield clause


# --- patterns -------------------------------------------------------------------------------------------------------

_NAME: Final = r"[A-Z][\w'.-]*(?:(?:,? | de | la | of | am | the | del | do )[A-Z][\w'.-]*)*"
_AT_END: Final = (
    r"(?=\s*(?:$|[.,;!(]|\b(?:in|since|for|with|and|last|this|from|at|as|because|now|again|near|on|where)\b))"
)
_PERFECT: Final = rf"I(?:'ve| have)?\s+{ADVERBS}"
_AM: Final = rf"I(?:'m| am)\s+{ADVERBS}"
_NO_MORE: Final = r"\s*\b(?:any ?more|any longer|at all)\b"
_JOBS: Final = (
    r"(?:[\w-]+ ){0,3}?(?:nurse|doctor|teacher|engineer|developer|programmer|designer|chef|cook|baker|lawyer|student|writer"
    r"|journalist|architect|scientist|researcher|professor|manager|director|accountant|consultant|analyst|artist|musician"
    r"|actor|actress|pilot|farmer|carpenter|plumber|electrician|mechanic|driver|photographer|librarian|pharmacist|dentist"
    r"|vet|veterinarian|therapist|psychologist|economist|barista|waiter|waitress|tutor|translator|editor|paramedic"
    r"|firefighter|officer|soldier|freelancer|entrepreneur|founder|physicist|chemist|biologist|historian|gardener|tailor"
    r"|salesperson|administrator|technician|statistician|surgeon|midwife|social worker|data scientist|team lead|clerk)"
)
_RELATIVES: Final = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|son|daughter|(?:(?:older|younger|little|big|twin) )?(?:sister"
    r"|brother)|mother|father|mom|mum|dad|grandmother|grandfather|grandma|grandpa|aunt|uncle|cousin|niece|nephew|boss"
    r"|manager|best friend|roommate|flatmate|neighbou?r|dog|cat|puppy|kitten|parrot|rabbit|hamster|horse|baby)"
)
_TOOLS: Final = (  # one moves to these without moving house
    r"(?:Python|Rust|Go|Java|Linux|Mac|Windows|Android|iPhone|Slack|Teams|Vim|VS|Postgres|PostgreSQL|Kubernetes|AWS|Azure|GCP|React"
    r"|Chrome|Firefox|Gmail|Outlook|Notion|Spotify|Netflix|GitHub|GitLab|Google|Apple|Microsoft|Plan|Chapter|Step|Page|English)"
)
_PETS: Final = r"(?:dog|cat|puppy|kitten|parrot|rabbit|hamster|horse|tortoise|turtle|bicycle|bike|motorbike|boat|piano)"
_SAME: Final = {"puppy": "dog", "kitten": "cat", "bicycle": "bike"}
_POINTS_BACK: Final = re.compile(
    r"(?:it|that|this|them|those|these|you|your|him|her|his|he|she|how|what|the way|when|where|to know|to see|to hear|one"
    r"|both|all of)\b",
    re.IGNORECASE,
)


_COMPARED: Final = re.compile(r"\s+(?:over|than|rather than|instead of)\s")
_PREFERRED: Final = re.compile(r"\s+(?:to|over|than|rather than|instead of)\s")


def _own_words(slot: str = "", *, holds: bool = True, whole: bool = True) -> Build:
    """A claim in the speaker's own words (the whole clause, or what matched) in the third person; its value is `v`."""

    def build(match: re.Match[str], who: str) -> list[Claim]:
        value = (match.groupdict().get("v") or "").strip(" ,.")
        said = {k: (v or "").lower() for k, v in match.groupdict().items()}
        name = slot.format(**{k: _SAME.get(v, v) for k, v in said.items()})
        told = match.string if whole else match[0]
        return [Claim(third_person(told, who), match.string, name, value, holds=holds)]

    return build


def _about(*templates: tuple[str, str, str]) -> Build:
    """Claims by template, one for each (slot, group of the value, wording) whose group matched."""

    def build(match: re.Match[str], who: str) -> list[Claim]:
        found = []
        for slot, group, wording in templates:
            if value := (match[group] or "").strip(" ,."):
                article = "an" if value[0].lower() in "aeiou" else "a"
                found.append(Claim(wording.format(who=who, value=value, a=article), match.string, slot, value))
        return found

    return build


def _taste(*, holds: bool) -> Build:
    def build(match: re.Match[str], who: str) -> list[Claim]:
        compared = _PREFERRED if re.search(r"\bprefer\b", match.string) else _COMPARED
        what = compared.split(match["v"].strip(" ,.!"))[0]
        # What it points back to stands in another sentence, so the claim would not be understood by itself.
        if _POINTS_BACK.match(what) or not terms(what):
            return []
        return [Claim(third_person(match.string, who), match.string, TASTE, what, holds=holds)]

    return build


def _retired(match: re.Match[str], who: str) -> list[Claim]:
    # Who has retired has no employer any more either.
    left = Claim(third_person(match.string, who), match.string, "employer", "", holds=False)
    return [left, Claim(f"{who} is retired", match.string, "job", "retired")]


def _happened(match: re.Match[str], who: str) -> list[Claim]:
    what = match["v"].strip(" ,.!")
    if _POINTS_BACK.match(what) or len(set(terms(what))) < 2:
        return []
    return [Claim(third_person(match.string, who), match.string, "", "", event=True)]


def _compiled(*patterns: tuple[str, Build]) -> tuple[tuple[re.Pattern[str], Build], ...]:
    return tuple((re.compile(pattern), build) for pattern, build in patterns)


_PATTERNS: Final = _compiled(
    (rf"(?:[Mm]y (?:first |full )?name(?: is|'s)|{_AM}(?:called|named)|[Cc]all me|[Pp]eople call me|[Ff]riends call me) "
     rf"(?P<v>{_NAME})", _about(("name", "v", "{who}'s name is {value}"))),
    # Homes and origins.
    (rf"I\s+{ADVERBS}used to live (?:in|at) (?P<v>{_NAME})", _own_words("home", holds=False)),
    (rf"I (?:no longer live|don't live|do not live) (?:in|at) (?P<v>{_NAME})", _own_words("home", holds=False)),
    (rf"(?:I\s+{ADVERBS}live|{_AM}(?:living|based)|I(?:'ve| have) {ADVERBS}been (?:living|based)) (?:in|at) (?P<v>{_NAME})",
     _own_words("home")),
    (rf"I(?:'ve| have) {ADVERBS}lived (?:in|at) (?P<v>{_NAME})(?=,? (?:since|for|all my life)\b)", _own_words("home")),
    (rf"{_PERFECT}(?:moved|relocated)(?: back| over)?(?: house)?(?: from {_NAME})? to (?!{_TOOLS}\b)(?P<v>{_NAME})", _own_words("home")),
    (rf"(?:{_AM}(?:originally )?from|I was born in|I grew up in|I come from) (?P<v>{_NAME})", _own_words("origin")),
    # Work.
    (rf"(?:I\s+{ADVERBS}work|{_AM}working) as (?:an? |the )?(?P<job>{_JOBS})(?: (?:at|for|with) (?:the )?(?P<v>{_NAME}))?\b",
     _about(("job", "job", "{who} works as {a} {value}"), ("employer", "v", "{who} works at {value}"))),
    (rf"(?:I (?:no longer|don't|do not) work|I stopped working) (?:at|for) (?:the )?(?P<v>{_NAME})",
     _own_words("employer", holds=False)),
    (rf"(?:I\s+{ADVERBS}work|{_AM}(?:now )?(?:working|employed)|I(?:'ve| have) {ADVERBS}(?:been (?:working|employed)"
     rf"|worked(?= .* since\b))) (?:at|for|with|by) (?:the )?(?P<v>{_NAME})", _own_words("employer")),
    (rf"{_PERFECT}(?:joined (?:the )?(?P<w>{_NAME})(?= as )|(?:started|begun|began)(?: working| (?:a|my) (?:new )?(?:job|position|role))?"
     rf" at (?:the )?(?P<v>{_NAME})|(?:got|found|landed|accepted|taken|took) (?:a|the) (?:new )?(?:job|position|role) (?:at|with) (?:the )?"
     rf"(?P<x>{_NAME}))(?: as (?:an? |the )?(?P<job>{_JOBS}))?\b",
     _about(("employer", "v", "{who} works at {value}"), ("employer", "w", "{who} works at {value}"),
            ("employer", "x", "{who} works at {value}"), ("job", "job", "{who} works as {a} {value}"))),
    (rf"{_PERFECT}(?:started|begun|began|got|found|landed|accepted|taken|took)(?: working| (?:a|my|the) (?:new )?(?:job|position|role))"
     rf" as (?:an? |the )?(?P<job>{_JOBS})(?: (?:at|for|with) (?:the )?(?P<v>{_NAME}))?\b",
     _about(("job", "job", "{who} works as {a} {value}"), ("employer", "v", "{who} works at {value}"))),
    (rf"{_PERFECT}(?:quit|left|resigned from|been laid off from|been fired from|gave notice at)(?: my job)?(?: at| with)?"
     rf"(?: the)? (?P<v>{_NAME})", _own_words("employer", holds=False)),
    (rf"(?:{_PERFECT}(?:quit|left|lost) (?:my|the) job|{_AM}unemployed|I was (?:laid off|fired|made redundant))(?P<v>)",
     _own_words("employer", holds=False)),
    (rf"(?:{_PERFECT}(?:just )?|{_AM}(?:now )?)retired\b", _retired),
    (rf"{_AM}(?:an?|the) (?P<v>{_JOBS}){_AT_END}", _about(("job", "v", "{who} is {a} {value}"))),
    # Who they are.
    (r"[Mm]y birthday(?: is|'s)(?: on)?(?: the)? (?P<v>[\w ,]+)", _own_words("birthday")),
    (r"I was born on(?: the)? (?P<v>[\w ,]+)", _own_words("birthday")),
    (rf"(?:{_AM}|I (?:just |recently )?turned )(?P<v>\d{{2,3}})(?: years old)?(?=\s*(?:$|[.,!]|today|yesterday|last|this|now))",
     _about(("age", "v", "{who} is {value} years old"))),
    (rf"(?:{_AM}|{_PERFECT}got )(?:now )?(?P<v>single|married|engaged|divorced|widowed)(?![-\w]| to my| in\b)", _own_words("marital")),
    (rf"(?:{_AM}|I(?:'ve| have) been )(?:now )?(?:an? )?(?:strict |lifelong )?(?P<v>vegan|vegetarian|pescatarian|omnivore|flexitarian)\b",
     _own_words("diet")),
    (rf"{_PERFECT}(?:became|become|went|gone|turned) (?:an? )?(?P<v>vegan|vegetarian|pescatarian)\b", _own_words("diet")),
    (r"I(?:'m| am) (?:no longer|not)(?: an?)? (?P<v>vegan|vegetarian|pescatarian)\b", _own_words("diet", holds=False)),
    # Allergies: whoever answers must know them whatever is asked.
    (r"(?:I(?:'m| am) (?:no longer|not) allergic to) (?P<v>[\w -]+)", _own_words("allergy:{v}", holds=False)),
    (rf"(?:{_AM}(?:\w+ly )?allergic to|I have an allergy to) (?P<v>[\w -]+?)"
     r"(?=\s*(?:$|[.,;!(]|\b(?:so|since|and|because|any ?more)\b))", _own_words("allergy:{v}", whole=False)),
    (r"I have (?:a |an )?(?:\w+ )?(?P<v>\w+) allergy\b", _own_words("allergy:{v}", whole=False)),
    (rf"{_AM}(?P<v>lactose|gluten)[ -]intolerant\b", _own_words("allergy:{v}", whole=False)),
    # People, animals and things of theirs.
    (rf"[Mm]y (?P<who>{_RELATIVES})(?:'s name is| is (?:called|named)|'s called|'s named) (?P<v>{_NAME})",
     _own_words("relation:{who}")),
    (rf"[Mm]y (?P<v>{_PETS})(?:,? {_NAME},?)? (?:died|passed away|ran away|has died|was stolen|got stolen)", _own_words("own:{v}", holds=False)),
    (rf"{_PERFECT}sold my (?P<v>\w+)", _own_words("own:{v}", holds=False)),
    (rf"(?:{_PERFECT}(?:own|adopted|got|bought)|I have) an? (?:[\w-]+ ){{0,2}}?(?P<v>{_PETS})\b", _own_words("own:{v}")),
    (r"I(?:'ve got| have) (?P<v>(?:an?|one|two|three|four|\d+) (?:[\w-]+ ){0,2}?(?:sisters?|brothers?|kids?|child(?:ren)?|sons?"
     r"|daughters?|siblings?|cats|dogs|cousins))\b", _own_words()),
    (rf"I\s+{ADVERBS}drive an? (?P<v>.+)", _own_words("own:car")),
    # Favourites, likes, dislikes and habits.
    (r"[Mm]y (?:new )?(?:all-time )?favou?rite (?P<what>[\w ]{2,30}?)(?: (?:is now|is|are)|'s) (?P<v>[^,;]+?)(?= now\b|[,;]|$)", _own_words("favourite:{what}")),
    (rf"I (?:don't|do not|no longer) (?P<v>smoke|drink|run|swim|meditate|cycle|code|paint|vape)(?:{_NO_MORE})?\s*(?=$|[,.;!])", _taste(holds=False)),
    (rf"(?:I\s+{ADVERBS}(?:don't|do not|no longer|never)(?: \w+ly)? (?:\w+ed to )?(?:like|love|enjoy|prefer|drink|eat|smoke|play|do|use"
     rf"|watch|go to|run|care for)|{_AM}(?:no longer|not)(?: \w+)? (?:into|fond of|a fan of|keen on))"
     rf" ?(?P<v>[^,;]+?)(?:{_NO_MORE})?(?=$|[,;.!])", _taste(holds=False)),
    (rf"(?:{_PERFECT}(?:stopped|quit|given up|gave up|gone off|went off|dropped)|I(?:'m| am) (?:done with|over|sick of|tired of"
     rf"|giving up)|I (?:can't stand|cannot stand|hate|dislike|detest|{ADVERBS}hate|{ADVERBS}dislike)) (?P<v>[^,;]+)",
     _taste(holds=False)),
    (rf"(?:I\s+{ADVERBS}(?:like|love|enjoy|adore|prefer)|{_AM}(?:(?:very |really |so )?(?:into|fond of|keen on)|a (?:big |huge )?fan of))"
     r" (?P<v>[^;]+)", _taste(holds=True)),
    (r"I (?:take|drink|eat|have) my (?P<v>[^;]+)", _taste(holds=True)),
    (r"I (?:never|rarely|hardly ever) (?P<v>[^;]+)", _taste(holds=False)),
    (r"I (?:usually|always|often|normally|regularly|typically|generally|sometimes|mostly) (?P<v>[^;]+)", _taste(holds=True)),
    (rf"I\s+{ADVERBS}(?P<v>(?:{'|'.join(HABITS)})\b[^;]*\b(?:every|each|daily|weekly|on (?:[MTWFS]\w+days?|weekends|weekdays)"
     r"|(?:once|twice|\w+ times) a|in the (?:morning|evening|afternoon)s?|at (?:night|noon|lunch)|before|after)\b[^;]*)",
     _taste(holds=True)),
    (rf"(?:I\s+{ADVERBS}(?:play|speak|study|collect|teach)|{_AM}(?:learning|studying|training for|practi[cs]ing|writing|reading"
     r"|working on|restoring|building)) (?P<v>[^;]+)", _taste(holds=True)),
    (rf"{_PERFECT}(?:started|begun|began|taken up|took up) (?P<v>(?:learning|playing|studying|running|swimming|going|drinking|doing"
     r"|practi[cs]ing|collecting|cycling|painting|meditating|yoga|climbing|knitting|writing|baking|cooking)\b[^;]*)",
     _taste(holds=True)),
    # What happened.
    (rf"{_PERFECT}(?:went|gone|visited|bought|started|finished|joined|adopted|ran|won|passed|graduated|met|attended|took|saw"
     rf"|watched|read|broke|lost|signed up|booked|celebrated|tried|sold|completed|flew|hiked|cooked|baked|planted|moved(?! (?:on|to (?:step|the next|{_TOOLS}))\b)|ordered"
     r"|travel+ed|learned|learnt|published|presented|climbed|hurt|injured|sprained|performed|volunteered|organi[sz]ed|got back"
     r"|came back|returned|retired|hosted|spent|built|received|failed|recovered) (?P<v>[^;]+)", _happened),
)  # fmt: skip
