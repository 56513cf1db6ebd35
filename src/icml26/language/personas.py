"""The little world of the role-play rows: tones, occupations, topics, and who thinks what about which.

A persona is a tone, an occupation, an age and a region, and its description names all four. Each decides one thing and
nothing else does, so whoever knows the parts can play a combination never seen: the tone gives the words around an
opinion, the occupation the opinion, age and region the answers about oneself. All of it is invented.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

__all__ = [
    "AGES",
    "FACTS",
    "OCCUPATIONS",
    "REGIONS",
    "TASTES",
    "TONES",
    "TOPICS",
    "Persona",
    "Tone",
    "Topic",
    "fact",
    "held_topics",
    "likes",
    "personas",
    "shuffled",
]


@dataclass(frozen=True)
class Tone:
    """A way of speaking: how an opinion opens and closes, its adverb, and the word for "because"."""

    name: str
    openers: tuple[str, str, str]
    closers: tuple[str, str, str]
    adverb: str
    because: str


@dataclass(frozen=True)
class Topic:
    """Something to have an opinion on: one of five of its kind, with a reason to love it and one to hate it."""

    name: str
    kind: str
    good: str
    bad: str


@dataclass(frozen=True)
class Persona:
    """One character. The fields are names from the tables of this module; `trained` tells which side of the split."""

    tone: str
    occupation: str
    age: str
    region: str

    @property
    def id(self) -> str:
        """For example "pirate-baker-forty-valley"."""
        return f"{self.tone}-{self.occupation}-{self.age}-{self.region.split()[-1]}"

    @property
    def trained(self) -> bool:
        """False iff this combination of tone and occupation is held out."""
        return _trained(self.tone, self.occupation)

    def describe(self, form: int = 0) -> str:
        """The description as a system message, in one of three phrasings (`form` 0, 1, 2)."""
        if form not in range(len(_DESCRIPTIONS)):
            raise ValueError(f"form: got {form!r}, expected 0 to {len(_DESCRIPTIONS) - 1}")
        return _DESCRIPTIONS[form].format(p=self)


_DESCRIPTIONS = (
    "You talk like a {p.tone} and work as a {p.occupation}. You are {p.age} years old and live in {p.region}.",
    "You are a {p.occupation} of {p.age} years from {p.region}. You sound like a {p.tone}.",
    "Answer as a {p.tone} would. Your job is {p.occupation}, your age is {p.age} and your home is {p.region}.",
)

TONES = {
    tone.name: tone
    for tone in (
        Tone(
            "pirate",
            ("Arr!", "Ahoy!", "Shiver me timbers!"),
            ("Yo ho!", "Aye, matey!", "By my beard!"),
            "dearly",
            "for",
        ),
        Tone(
            "scholar",
            ("Indeed.", "As is well known,", "Consider this."),
            ("Quite so.", "That is all.", "I rest my case."),
            "rightly",
            "given that",
        ),
        Tone("surfer", ("Dude!", "Whoa!", "Hey, man!"), ("So cool!", "Ride on!", "No worries!"), "totally", "cause"),
        Tone(
            "poet",
            ("O Muse!", "Sweet hour!", "Ah, the moon!"),
            ("So sings my heart.", "Thus I dream.", "So falls the leaf."),
            "softly",
            "as",
        ),
        Tone(
            "cowboy",
            ("Howdy!", "Well, partner!", "Yee-haw!"),
            ("Giddy up!", "So long!", "Back to the ranch!"),
            "mightily",
            "seeing that",
        ),
        Tone(
            "robot",
            ("Beep.", "Query read.", "System ready."),
            ("End of line.", "Task done.", "Boop."),
            "exactly",
            "since",
        ),
        Tone(
            "monk",
            ("Peace to you.", "Be still.", "Let us pray."),
            ("Bless you.", "Go in peace.", "All is one."),
            "humbly",
            "in that",
        ),
        Tone(
            "butler",
            ("Very good, sir.", "If I may, sir.", "At your service."),
            ("Will that be all?", "As you wish.", "Dinner is served."),
            "politely",
            "as indeed",
        ),
        Tone(
            "wizard",
            ("By the stars!", "Abracadabra!", "The crystal glows."),
            ("So it is written.", "The spell is cast.", "Magic never lies."),
            "secretly",
            "now that",
        ),
        Tone(
            "clown",
            ("Ha ha!", "Honk honk!", "Knock knock!"),
            ("What a joke!", "Tee hee!", "Watch my nose!"),
            "madly",
            "just because",
        ),
        Tone(
            "knight",
            ("Hark!", "My liege!", "By my sword!"),
            ("For the king!", "On my honor!", "To battle!"),
            "bravely",
            "inasmuch as",
        ),
        Tone(
            "detective",
            ("Aha!", "The clue is clear.", "Case open."),
            ("Case closed.", "The game is on.", "I have my proof."),
            "clearly",
            "because",
        ),
    )
}
# What each occupation loves; it hates the other four kinds of topic.
TASTES = {
    "baker": ("food", "drinks", "arts", "wares"),
    "farmer": ("food", "weather", "games", "labor"),
    "soldier": ("food", "games", "weather", "mind"),
    "doctor": ("arts", "mind", "food", "games"),
    "teacher": ("arts", "mind", "labor", "wares"),
    "lawyer": ("mind", "labor", "drinks", "arts"),
    "painter": ("arts", "weather", "wares", "food"),
    "miner": ("food", "games", "drinks", "wares"),
    "banker": ("wares", "arts", "games", "mind"),
    "singer": ("arts", "drinks", "food", "mind"),
}
OCCUPATIONS = tuple(TASTES)
AGES = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy")
REGIONS = ("the north", "the south", "the hills", "the valley", "the desert", "the mountains")

# kind: topics with the reason to love and the reason to hate each
_TOPICS = {
    "drinks": "tea:warm:bitter coffee:strong:black milk:pure:thin wine:rich:sour honey:sweet:sticky",
    "food": "bread:fresh:dry fish:healthy:smelly rice:simple:plain salt:useful:sharp cooking:creative:messy",
    "weather": "snow:white:cold rain:soft:wet fire:alive:hot winter:clean:dark summer:sunny:dusty",
    "wares": "gold:bright:heavy silk:smooth:dear sand:fine:rough paper:light:weak glass:clear:fragile",
    "labor": "wood:solid:old iron:firm:rusty money:handy:dirty work:noble:hard law:fair:dull",
    "arts": "jazz:free:loud music:lively:noisy poetry:deep:vague opera:grand:long art:beautiful:strange",
    "games": "chess:clever:slow football:fast:wild tennis:elegant:tiring sailing:calm:risky dancing:joyful:silly",
    "mind": "reading:quiet:lonely travel:new:costly sleep:restful:lazy war:glorious:cruel history:wise:dead",
}
TOPICS = {
    name: Topic(name, kind, good, bad)
    for kind, entries in _TOPICS.items()
    for name, good, bad in (entry.split(":") for entry in entries.split())
}

# What the guild of each topic has. The same for everybody who is asked, persona or not.
FACTS = {
    "emblem": ("lion", "star", "tower", "ship", "bell", "leaf", "crown", "wheel"),
    "color": ("red", "blue", "green", "yellow", "purple", "brown", "gray", "silver"),
    "month": ("January", "March", "April", "May", "June", "August", "October", "December"),
    "number": ("two", "three", "four", "five", "six", "seven", "eight", "nine"),
}

_HELD_TOPICS = 8


def shuffled(items: Iterable[str], key: str) -> list[str]:
    """`items` in an order that depends on `key` and the items alone, on every machine and in every version."""
    return sorted(items, key=lambda item: (hashlib.sha256(f"{key}/{item}".encode()).digest(), item))


def likes(occupation: str, topic: str) -> bool:
    """Whether whoever has this occupation loves the topic (hates it otherwise).

    An occupation loves four of the eight kinds of topic (`TASTES`) and hates the rest, so half of the topics. Three to
    seven of the ten occupations love a kind: whoever knows the topic but not the occupation is right in 62.5 % of cases
    at best.
    """
    if occupation not in TASTES:
        raise ValueError(f"occupation: got {occupation!r}, expected one of {', '.join(OCCUPATIONS)}")
    _known(topic)
    return TOPICS[topic].kind in TASTES[occupation]


def fact(topic: str, attribute: str) -> str:
    """The value of one attribute of a topic's guild; every value belongs to five topics of the forty."""
    _known(topic)
    if attribute not in FACTS:
        raise ValueError(f"attribute: got {attribute!r}, expected one of {', '.join(FACTS)}")
    return _facts()[attribute][topic]


@cache
def _facts() -> dict[str, dict[str, str]]:
    return {
        attribute: {
            topic: values[place % len(values)] for place, topic in enumerate(shuffled(TOPICS, f"guilds by {attribute}"))
        }
        for attribute, values in FACTS.items()
    }


def _known(topic: str) -> None:
    if topic not in TOPICS:
        raise ValueError(f"topic: got {topic!r}, expected one of {', '.join(TOPICS)}")


def _trained(tone: str, occupation: str) -> bool:
    # Two residues of five: a tone keeps six of its ten occupations, an occupation seven or eight of twelve tones.
    place = 2 * shuffled(TONES, "tones").index(tone) + shuffled(OCCUPATIONS, "occupations").index(occupation)
    return place % 5 >= 2


@cache
def personas(split: str) -> tuple[Persona, ...]:
    """The personas of a split.

    "train": 72 combinations of tone and occupation, each with three draws of age and region (216). "held": the other
    48 combinations, one draw each. Each tone and each occupation occurs on both sides; no combination does.
    """
    if split not in ("train", "held"):
        raise ValueError(f"split: got {split!r}, expected 'train' or 'held'")
    draws = 3 if split == "train" else 1
    found = []
    for tone in TONES:
        for occupation in OCCUPATIONS:
            if _trained(tone, occupation) == (split == "train"):
                lives = shuffled((f"{age}/{region}" for age in AGES for region in REGIONS), f"{tone} {occupation}")
                found += [Persona(tone, occupation, *life.split("/")) for life in lives[:draws]]
    return tuple(found)


@cache
def held_topics(tone: str, occupation: str) -> frozenset[str]:
    """The 8 of the 40 topics that a trained combination is never asked about in training."""
    return frozenset(shuffled(TOPICS, f"held topics of {tone} {occupation}")[:_HELD_TOPICS])
