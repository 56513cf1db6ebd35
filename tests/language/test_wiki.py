"""The Wikipedia articles: which they are, that no test article is trained on, and faults."""

from __future__ import annotations

import bz2
import json

import pytest

from icml26.lab.download import ChecksumError
from icml26.language import wiki

PAGE = (
    "<page><title>{title}</title><ns>{ns}</ns><id>{id}</id>"
    '<revision><id>1</id><text xml:space="preserve">{text}</text></revision></page>'
)
HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">'


KNOWN = wiki.articles()


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    wiki._articles.cache_clear()
    yield tmp_path
    wiki._articles.cache_clear()


@pytest.mark.slow
def test_articles_are_the_pinned_ninety_two():
    texts = wiki.extract(wiki.dump())
    assert texts == wiki.articles()
    assert len(texts) == 92
    assert wiki.sha256(texts) == wiki.SHA256
    assert 2_400_000 < sum(map(len, texts.values())) < 2_500_000
    assert texts["Achilles"].startswith("In Greek mythology, Achilles")


def test_articles_are_prose():
    for title, text in wiki.articles().items():
        assert len(text) >= 1500, title
        for paragraph in text.split("\n\n"):
            assert len(paragraph.split()) >= 25
            assert not paragraph.startswith(tuple("*#:;|!{}="))
            assert not any(mark in paragraph for mark in ("[", "]", "''"))


def test_no_article_is_in_two_splits():
    parts = {name: wiki.split(name) for name in ("train", "validation", "test")}
    assert [len(texts) for texts in parts.values()] == [84, 4, 4]
    assert len(set().union(*parts.values())) == 92
    assert set(parts["test"]) == {wiki.articles()[t] for t in ("Alabama", "Aristotle", "Anthropology", "Achilles")}


def test_no_paragraph_of_a_held_out_article_is_trained_on():
    trained = {p for text in wiki.split("train") for p in text.split("\n\n")}
    held = {p for name in ("validation", "test") for text in wiki.split(name) for p in text.split("\n\n")}
    assert not trained & held


def test_unknown_split():
    with pytest.raises(ValueError, match=r"name: got 'dev', expected 'train'"):
        wiki.split("dev")


def test_caller_cannot_change_the_articles():
    wiki.articles().clear()
    assert len(wiki.articles()) == 92


def test_damaged_cache_is_made_again(fresh, monkeypatch):
    monkeypatch.setattr(wiki, "extract", lambda path: KNOWN)  # as the test above has it
    assert len(wiki.articles()) == 92
    (file,) = (fresh / "text").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    wiki._articles.cache_clear()
    assert len(wiki.articles()) == 92
    assert file.read_bytes() == whole


def test_other_articles_are_refused_and_nothing_is_kept(fresh, monkeypatch):
    monkeypatch.setattr(wiki, "extract", lambda path: {"A": "text"})
    with pytest.raises(ChecksumError, match="carries or cleans the dump differently"):
        wiki.articles()
    assert not list((fresh / "text").iterdir())


def test_missing_gensim_says_what_to_install(monkeypatch):
    monkeypatch.setattr(wiki, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'icml26\[language\]'"):
        wiki.dump()


def test_extract_drops_markup_lists_redirects_and_other_name_spaces(tmp_path):
    prose = " ".join(["An [[ostrich|ostrich]] is a '''large''' bird{{citation needed}} of Africa."] * 16)
    long = "\n".join([prose, "== Heading ==", "* a list item " * 20, "short line", prose, prose])
    pages = [
        PAGE.format(title="Ostrich", ns=0, id=1, text=long),
        PAGE.format(title="Talk", ns=1, id=2, text=long),
        PAGE.format(title="Struthio", ns=0, id=3, text="#REDIRECT [[Ostrich]]\n" + long),
        PAGE.format(title="Stub", ns=0, id=4, text=prose),
    ]
    path = tmp_path / "dump.bz2"
    path.write_bytes(bz2.compress((HEAD + "".join(pages) + "</mediawiki>").encode()))
    texts = wiki.extract(path)
    assert list(texts) == ["Ostrich"]
    assert texts["Ostrich"].split("\n\n") == [" ".join(["An ostrich is a large bird of Africa."] * 16)] * 3
    assert json.dumps(texts)
