"""Built pages ask no outside server for anything, describe each picture, and no local link is dead."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

# sphinx-thebe writes this address into a constant of each page and would load it only after a click on a
# launch button that this book does not have.
THEBE = 'const THEBE_JS_URL = "https://unpkg.com/thebe@'

# Elements that make a browser fetch an address when the page opens.
LOADING = {
    "script": ["src"],
    "img": ["src", "srcset"],
    "iframe": ["src"],
    "frame": ["src"],
    "embed": ["src"],
    "object": ["data"],
    "source": ["src", "srcset"],
    "audio": ["src"],
    "video": ["src", "poster"],
    "track": ["src"],
    "input": ["src"],
    "image": ["href", "xlink:href"],
    "use": ["href", "xlink:href"],
}
# Relations of <link> that only inform and load nothing.
INERT_RELATIONS = {"canonical", "author", "license", "search", "next", "prev", "index", "alternate", "up"}
OUTSIDE = re.compile(r"\s*(?:https?:)?//", re.I)


class Page(HTMLParser):
    """What one page loads from outside, its pictures without description, its links and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.outside, self.nameless, self.links, self.anchors = [], [], [], set()
        self._style = self._script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = {name: value or "" for name, value in attrs}
        self._style, self._script = tag == "style", tag == "script" and "src" not in attrs
        for name in LOADING.get(tag, []):
            value = attrs.get(name, "")
            # Only srcset lists several; the comma of a data address separates nothing.
            if any(OUTSIDE.match(part) for part in (value.split(",") if name == "srcset" else [value])):
                self.outside.append(f"<{tag} {name}={attrs[name]}>")
        loads = tag == "link" and not set(attrs.get("rel", "").lower().split()) <= INERT_RELATIONS
        if loads and OUTSIDE.match(attrs.get("href", "")):
            self.outside.append(f"<link rel={attrs.get('rel')} href={attrs['href']}>")
        self._look_at_style(attrs.get("style", ""))
        if tag == "img" and not attrs.get("alt", "").strip():
            self.nameless.append(attrs.get("src", "")[:80])
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}

    def handle_endtag(self, tag):
        self._style = self._script = False

    def handle_data(self, data):
        if self._style:
            self._look_at_style(data)
        if self._script:
            for address in re.findall(
                r"(?:fetch|import|importScripts|open)\s*\(\s*[\"'`]https?://[^\"'`]*", data
            ):
                self.outside.append(address)
            for address in re.findall(r"\.(?:src|href)\s*=\s*[\"'`]https?://[^\"'`]*", data):
                self.outside.append(address)

    def _look_at_style(self, css):
        self.outside += outside_in_css(css)


def outside_in_css(css):
    return [
        *re.findall(r"@import\s+(?:url\()?\s*[\"']?(?:https?:)?//[^\s;\"')]*", css, re.I),
        *re.findall(r"url\(\s*[\"']?(?:https?:)?//[^\s\"')]*", css, re.I),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        "<script src='//cdn.example.org/x.js'></script>",
        '<link rel="stylesheet" href="http://example.org/x.css">',
        '<link rel="preload" as="font" href="https://example.org/x.woff2">',
        '<img alt="x" src="https://example.org/x.png">',
        '<img alt="x" srcset="a.png 1x, https://example.org/x.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        '<style>@import "https://example.org/x.css";</style>',
        "<style>p { background: url(https://example.org/x.png) }</style>",
        '<p style="background: url(//example.org/x.png)">x</p>',
        '<script>fetch("https://example.org/x.json")</script>',
        '<script>s.src = "https://example.org/x.js"</script>',
    ],
)
def test_the_search_sees_each_way_out(bad):
    assert Page(bad).outside


@pytest.mark.parametrize(
    "good",
    [
        '<a href="https://example.org">a link that a reader may follow</a>',
        '<link rel="canonical" href="https://example.org/">',
        '<img alt="x" src="data:image/png;base64,//AA">',
        '<script src="../_static/x.js"></script>',
        f'<script>{THEBE}0.8.2/lib/index.js"</script>',
    ],
)
def test_the_search_leaves_what_loads_nothing(good):
    assert not Page(good).outside


def test_the_search_sees_a_picture_without_description():
    assert Page('<img src="x.png">').nameless
    assert Page('<img src="x.png" alt=" ">').nameless
    assert not Page('<img src="x.png" alt="a tree">').nameless


@pytest.fixture(scope="module")
def site(book_html):
    """Every built page: path -> parsed page."""
    paths = [p for p in sorted(book_html.rglob("*.html")) if "_static" not in p.relative_to(book_html).parts]
    assert len(paths) > 10
    return {p: Page(p.read_text(encoding="utf-8")) for p in paths}


def test_source_listings_are_of_the_book_only(site, book_html):
    listed = [p.relative_to(book_html / "_modules") for p in site if book_html / "_modules" in p.parents]
    assert {path.parts[0] for path in listed} == {"icml26", "index.html"}


def test_no_page_loads_anything_from_outside(site, book_html):
    wrong = {str(p.relative_to(book_html)): page.outside for p, page in site.items() if page.outside}
    assert not wrong


def test_no_style_sheet_loads_anything_from_outside(book_html):
    wrong = {}
    for path in (book_html / "_static").rglob("*.css"):
        if found := outside_in_css(path.read_text(encoding="utf-8", errors="replace")):
            wrong[str(path.relative_to(book_html))] = found
    assert not wrong


def test_content_hosts_are_named_nowhere_but_in_the_inert_constant(site, book_html):
    hosts = ("cdn.jsdelivr.net", "cdnjs.cloudflare.com", "unpkg.com", "fonts.googleapis.com", "polyfill.io")
    wrong = []
    for path in site:
        if "_modules" in path.parts:  # source code shown as text
            continue
        text = path.read_text(encoding="utf-8").replace(THEBE, "")
        wrong += [f"{path.relative_to(book_html)}: {host}" for host in hosts if host in text]
    assert not wrong


def test_every_picture_has_a_description(site, book_html):
    wrong = {str(p.relative_to(book_html)): page.nameless for p, page in site.items() if page.nameless}
    assert not wrong


def test_every_local_link_leads_somewhere(site, book_html):
    wrong = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{path.relative_to(book_html)} -> {link}")
            # The listings of source code point back to names that their page may leave out.
            elif "_modules" in path.parts:
                continue
            elif parts.fragment and target in site and unquote(parts.fragment) not in site[target].anchors:
                wrong.append(f"{path.relative_to(book_html)} -> {link} (no such anchor)")
    assert not wrong


def test_maths_comes_from_the_one_vendored_file(site, book_html):
    assert (book_html / "_static" / "mathjax" / "tex-svg-full.js").stat().st_size > 2_000_000
    text = (book_html / "book" / "notation.html").read_text(encoding="utf-8")
    assert re.findall(r'<script[^>]*src="([^"?]*mathjax[^"?]*)', text) == [
        "../_static/mathjax/tex-svg-full.js"
    ]
