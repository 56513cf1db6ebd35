"""Spelling rules of English plurals and past tenses, with their exceptions: the independent solver of two skills."""

from __future__ import annotations

import re

__all__ = ["past", "plural"]

_VES = {"calf", "half", "knife", "leaf", "life", "loaf", "shelf", "thief", "wife", "wolf"}
_OES = {"hero", "potato", "tomato"}
# Vowel changes: old stems that no rule covers.
_PLURALS = {
    "child": "children",
    "foot": "feet",
    "goose": "geese",
    "man": "men",
    "mouse": "mice",
    "tooth": "teeth",
    "woman": "women",
}
_STRONG = """
    begin began, bend bent, bite bit, blow blew, break broke, bring brought, build built, buy bought, catch caught,
    choose chose, come came, dig dug, draw drew, drink drank, drive drove, eat ate, fall fell, feed fed, feel felt,
    fight fought, find found, fly flew, forget forgot, forgive forgave, freeze froze, get got, give gave, go went,
    grow grew, hear heard, hide hid, hold held, keep kept, know knew, lead led, leave left, lend lent, lose lost,
    make made, meet met, pay paid, ride rode, ring rang, rise rose, run ran, say said, see saw, sell sold, send sent,
    shake shook, shoot shot, sing sang, sit sat, sleep slept, speak spoke, spend spent, stand stood, steal stole,
    stick stuck, swear swore, sweep swept, swim swam, swing swung, take took, teach taught, tear tore, tell told,
    think thought, throw threw, understand understood, wear wore, win won, write wrote
"""
_PASTS = dict(pair.split() for pair in _STRONG.split(","))


def plural(noun: str) -> str:
    """The plural of a noun."""
    if noun in _PLURALS:
        return _PLURALS[noun]
    if noun in _VES:
        return re.sub("fe?$", "ves", noun)
    if noun in _OES or re.search("(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search("[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def past(verb: str) -> str:
    """The past tense of a verb."""
    if verb in _PASTS:
        return _PASTS[verb]
    if verb.endswith("e"):
        return verb + "d"
    if re.search("[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    # One short syllable that ends in one consonant doubles it: stop, stopped.
    if re.fullmatch("[^aeiou]*[aeiou][^aeiouwxy]", verb):
        return verb + verb[-1] + "ed"
    return verb + "ed"
