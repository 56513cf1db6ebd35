"""The pages in a real browser, from disk: phone and desk, light and dark, keyboard, maths, outside requests.

Optional: skipped where the Python package playwright or a Chromium is missing. CHROMIUM names another one.
"""

import os
import shutil
from pathlib import Path

import pytest

import chapters
import scoreboard

sync_api = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
CHROMIUM = CHROMIUM or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# sphinx-thebe is loaded twice by Jupyter Book 1.x; the message is harmless and known.
KNOWN_ERROR = "THEBE_JS_URL' has already been declared"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine"),
]

# Formulas that are not typeset, or typeset as an error.
MATHS_FAULTS = """async () => {
  const maths = [...document.querySelectorAll("span.math, div.math")];
  if (!maths.length) return [];
  if (!window.MathJax || !MathJax.startup || !MathJax.startup.promise) return ["MathJax is not there"];
  await MathJax.startup.promise;
  const raw = maths.filter(m => !m.querySelector("mjx-container")).map(m => "not typeset: " + m.textContent);
  const wrong = [...document.querySelectorAll("[data-mml-node=merror], mjx-merror")];
  return raw.concat(wrong.map(m => "error in a formula: " + m.textContent));
}"""

# What sticks out to the right of the window and is not inside a box that scrolls on its own.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width + 1) return [];
  const out = e => e.getBoundingClientRect().right > width + 1;
  const wide = [...document.querySelectorAll("main *")].filter(out);
  return ["page is " + document.documentElement.scrollWidth + " px wide: " +
          wide.slice(0, 3).map(e => e.outerHTML.slice(0, 80)).join(" | ")];
}"""

# Picture and text around a slider, without the slider's own read-out.
AROUND = """input => {
  const box = input.closest("figure") || input.closest(".output, .cell_output") || document.body;
  const copy = box.cloneNode(true);
  copy.querySelectorAll("label, output, script, style").forEach(e => e.remove());
  return [...copy.querySelectorAll("img")].map(i => i.src).join() + "\\n" + copy.textContent;
}"""

# Text in the article that can hardly be told from what lies behind it (contrast below 3).
FAINT = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => parse(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor, parts = parse(colour);
      if (parts.length < 4 || parts[3] > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const e of document.querySelectorAll("article *")) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("svg, script, style, mjx-container, .highlight, a.headerlink")) continue;
    if (!e.getClientRects().length) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 3) found.push("faint text: " + e.outerHTML.slice(0, 90));
  }
  return found.slice(0, 3);
}"""

BRIGHTNESS = """() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}"""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Window:
    """One browser window that notes errors and outside requests, and lets none of these through."""

    def __init__(self, browser, width=1280, height=900):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
        self.faults = []
        self.context.route("**/*", self._route)
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self._error(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self._error(str(e)))
        self.page.on("requestfailed", lambda r: self.faults.append(f"failed: {r.url[:120]}"))

    def _route(self, route):
        if route.request.url.startswith(("file:", "data:", "blob:", "about:")):
            route.continue_()
        else:
            self.faults.append(f"outside request: {route.request.url[:120]}")
            route.abort()

    def _error(self, text):
        if KNOWN_ERROR not in text:
            self.faults.append(f"console: {text[:200]}")

    def open(self, path):
        self.faults = []
        self.page.goto(path.as_uri())

    def close(self):
        self.context.close()


def move_sliders(page):
    """Move every slider one step by the keyboard; what neither changes picture nor text is a fault."""
    faults = []
    for slider in page.query_selector_all("input[type=range]"):
        slider.scroll_into_view_if_needed()
        before = slider.evaluate(AROUND)
        at_end = slider.evaluate("i => i.value === i.max")
        slider.focus()
        page.keyboard.press("ArrowLeft" if at_end else "ArrowRight")
        page.wait_for_timeout(50)
        if slider.evaluate(AROUND) == before:
            faults.append("a slider changes nothing: " + slider.evaluate("i => i.outerHTML")[:120])
    return faults


def faults_of(window, path):
    """Everything that is wrong with one page, first in the light and then, switched over, in the dark."""
    window.open(path)
    page = window.page
    faults = page.evaluate(MATHS_FAULTS) + page.evaluate(OVERFLOW)
    if n := page.evaluate("() => [...document.images].filter(i => !i.alt.trim()).length"):
        faults.append(f"{n} pictures without description")
    broken = (
        "() => [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src.slice(0, 99))"
    )
    faults += [f"broken picture: {source}" for source in page.evaluate(broken)]
    faults += move_sliders(page)
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        page.evaluate("mode => { document.documentElement.dataset.theme = mode }", mode)
        page.wait_for_timeout(20)
        bright = page.evaluate(BRIGHTNESS)
        if (bright > 0.5) != (mode == "light"):
            faults.append(f"the page is not {mode}: brightness {bright:.2f}")
        faults += [f"{mode}: {text}" for text in page.evaluate(FAINT)]
    page.emulate_media(color_scheme="light")
    return faults + window.faults


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_every_page_is_sound(browser, book_html, width, height):
    pages = [p for p in sorted(book_html.rglob("*.html")) if "_static" not in p.relative_to(book_html).parts]
    pages.remove(book_html / "index.html")  # only sends the reader on to book/index.html
    listings = [p for p in pages if book_html / "_modules" in p.parents]  # hundreds, alike but for their length
    longest = max(listings, key=lambda p: p.stat().st_size)
    pages = [p for p in pages if p not in listings or p == longest]
    window = Window(browser, width, height)
    try:
        wrong = {str(p.relative_to(book_html)): faults_of(window, p) for p in pages}
    finally:
        window.close()
    assert not {name: faults for name, faults in wrong.items() if faults}


PAPER = "<style>body { background: #fff }</style>"
NIGHT = "<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }</style>"
BROKEN = {
    "outside request": '<img alt="x" src="https://example.org/x.png">',
    "console": "<script>throw new Error('broken')</script>",
    "not typeset": '<span class="math">\\(x\\)</span><script>MathJax = {startup: {promise: 1}}</script>',
    "MathJax is not there": '<span class="math">\\(x\\)</span>',
    "px wide": '<main><p style="width: 2000px">wide</p></main>',
    "description": '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">',
    "broken picture": '<img alt="x" src="data:image/png;base64,AAAA">',
    "changes nothing": '<figure><label><input type="range" min="0" max="3"></label></figure>',
    "not light": "<style>body { background: #000 }</style>",
    "not dark": "",
    "light: faint text": "<article><p style='color: #ddd'>pale</p></article>",
    "dark: faint text": "<article><p>fine in the light</p></article>"
    "<style>@media (prefers-color-scheme: dark) { body { background: #000 } p { color: #222 } }</style>",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_check_sees(browser, tmp_path, fault):
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{PAPER}<body>{BROKEN[fault]}")
    window = Window(browser, 390)
    try:
        faults = faults_of(window, tmp_path / "page.html")
    finally:
        window.close()
    assert any(fault in text for text in faults), faults


def test_a_sound_page_passes(browser, tmp_path):
    (tmp_path / "page.html").write_text(
        f"<!doctype html><meta charset=utf-8>{PAPER}{NIGHT}<body><article><figure>"
        '<label>k <input type="range" min="0" max="3" value="3" oninput="t.textContent = this.value"></label>'
        '<pre id="t">3</pre></figure></article>'
    )
    window = Window(browser, 390)
    try:
        assert faults_of(window, tmp_path / "page.html") == []
    finally:
        window.close()


@pytest.fixture
def scoreboard_page(tmp_path):
    """The claims of two chapters as the scoreboard shows them, alone on a page."""
    base = {"claim": "c", "paper": "1", "source": "s", "rule": "r", "measured": 1.0, "interval": None}

    def claims(*verdicts):
        return [base | {"id": f"c{i}", "verdict": verdict} for i, verdict in enumerate(verdicts)]

    ledgers = [
        {"chapter": "01", "claims": claims("reproduced", "argued", "not reproduced")},
        {"chapter": "09", "claims": claims("reproduced", "out of reach here")},
    ]
    lines = scoreboard.claims_table(chapters.load_book(ROOT), ledgers)
    (tmp_path / "page.html").write_text("<!doctype html><meta charset=utf-8><body>" + "\n".join(lines))
    return tmp_path / "page.html"


def shown(page):
    rows = page.query_selector_all("#claims tbody tr")
    visible = [row.get_attribute("id") for row in rows if row.is_visible()]
    assert page.inner_text("#claims-shown") == f"{len(visible)} of 5 claims shown"
    return visible


def test_the_scoreboard_filters_by_chapter_and_verdict_with_the_keyboard(browser, scoreboard_page):
    window = Window(browser)
    page = window.page
    try:
        window.open(scoreboard_page)
        assert len(shown(page)) == 5
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "chapter"
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert shown(page) == ["claim-09-c0", "claim-09-c1"]
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        assert shown(page) == ["claim-09-c0"]
        page.keyboard.press("Home")
        assert len(shown(page)) == 2
        page.goto(scoreboard_page.as_uri() + "?chapter=01&verdict=argued")
        assert shown(page) == ["claim-01-c1"]
        page.goto(scoreboard_page.as_uri() + "?chapter=nowhere")
        assert len(shown(page)) == 5
    finally:
        window.close()


def test_the_scoreboard_reads_without_script(browser, scoreboard_page):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(scoreboard_page.as_uri())
    assert not page.is_visible("#claims-filter")
    assert sum(row.is_visible() for row in page.query_selector_all("#claims tbody tr")) == 5
    context.close()
