"""The static slider in a real browser, from disk, on a phone, in the dark, by keyboard."""

import shutil

import matplotlib as mpl
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from icml26.lab.explore import explore

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield running
        running.close()


@pytest.fixture
def page(browser, tmp_path, monkeypatch):
    import IPython.display

    parts = []
    monkeypatch.setattr(IPython.display, "display", lambda thing: parts.append(thing.data))
    monkeypatch.setenv("ICML26_STATIC", "1")

    def show(omega, noise):
        fig, axes = plt.subplots(figsize=(5, 2.5))
        axes.plot([0, omega], [noise, 1])
        print(
            f"slope {(1 - noise) / omega:.3f}" + "\nand a long line" * (noise == 1) + " without a break" * 9
        )
        return fig

    for _ in range(2):  # the same twice in one page must not fight
        explore(
            show,
            start={"omega": 1, "noise": 0},
            caption="Slopes.",
            alt=lambda omega, noise: f"line to {omega} from {noise}",
            omega=[0.5, 1, 2],
            noise=[0, 1],
        )
    file = tmp_path / "page.html"
    style = "<style>body{background:#121212;color:#eee;margin:8px}</style>"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>t</title>{style}<body>{''.join(parts)}</body>"
    )
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    opened = context.new_page()
    opened.requests, opened.problems = [], []
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on("console", lambda message: opened.problems.append(message.text))
    opened.goto(file.as_uri())
    yield opened
    context.close()


def state(page, which):
    root = page.locator("figure.lab-explore").nth(which)
    image = root.locator("img")
    return (
        image.get_attribute("src"),
        image.get_attribute("alt"),
        root.locator("pre").inner_text().split(" without")[0],
        [output.inner_text() for output in root.locator("output").all()],
    )


def test_keyboard_moves_picture_text_and_alt(page):
    first = state(page, 0)
    assert first[1:] == ("line to 1 from 0", "slope 1.000", ["1", "0"])
    page.keyboard.press("Tab")  # the first slider is the first stop
    page.keyboard.press("ArrowRight")
    second = state(page, 0)
    assert second[1:] == ("line to 2 from 0", "slope 0.500", ["2", "0"])
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    third = state(page, 0)
    assert third[1] == "line to 2 from 1"
    assert third[2].startswith("slope 0.000\nand a long line")
    assert len({first[0], second[0], third[0]}) == 3
    page.keyboard.press("Home")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowLeft")
    assert state(page, 0) == first  # its picture comes back
    assert state(page, 1) == first  # and the other slider never moved
    focused = page.evaluate("document.activeElement.getAttribute('aria-valuetext')")
    assert focused == "1"
    for locator in page.locator("input").all():
        assert locator.evaluate("e => e.labels.length") == 1


def test_every_picture_loads_from_disk_without_a_request_or_an_error(page):
    sliders = page.locator("figure.lab-explore").nth(0).locator("input")
    for omega in range(3):
        for noise in range(2):
            sliders.nth(0).fill(str(omega))
            sliders.nth(1).fill(str(noise))
            page.wait_for_function("[...document.images].every(i => i.complete && i.naturalWidth === 400)")
    outside = [url for url in page.requests if not url.startswith(("file:", "data:"))]
    assert outside == []
    assert page.problems == []


def test_fits_a_phone_and_the_picture_stays_on_white(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    image = page.locator("img").nth(0)
    assert image.evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    text = page.locator("pre").nth(0).evaluate("e => getComputedStyle(e).color")
    assert text == "rgb(238, 238, 238)"  # the page's own colour, so it reads in the dark
    assert image.bounding_box()["width"] > 300


def test_without_script_the_start_state_is_there(browser, page):
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(page.url)
    assert state(plain, 0)[1:] == ("line to 1 from 0", "slope 1.000", ["1", "0"])
    context.close()
