"""`icl look` and `opto.show` in a real browser: what a reader clicks and sees."""

import contextlib
import http.client
import json
import os
import re
import shutil
import threading
import time
from urllib.parse import urlsplit

import jax
import numpy as np
import pytest
from commands import call

import icl
import opto
from icl.look import Server, Side
from icl.report.subject import Subject


NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def run(small_run, tmp_path_factory):
    """A run with three checkpoints, whose name must be text in a page."""
    folder = tmp_path_factory.mktemp("runs") / "a <b> & 'c'"
    return icl.load(shutil.copytree(small_run, folder))


@pytest.fixture(scope="module")
def server(run):
    with Server([Side(Subject(run, "train"))]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    """A browser of this machine, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    given = os.environ.get("ICL_BROWSER")
    path = given or next((x for x in map(shutil.which, NAMES) if x), None)
    if path is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}: apt install chromium")
    with playwright.sync_playwright() as p:
        yield p.chromium.launch(executable_path=path, args=["--no-sandbox"])


@contextlib.contextmanager
def opened(browser, address, **given):
    """A page, with what it asked for; nothing may go wrong in it."""
    page, wrong, asked = browser.new_page(**given), [], []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("[data-answered]")
    yield page
    assert wrong == []
    assert {urlsplit(url).hostname for url in asked} <= {urlsplit(address).hostname}
    page.close()


def after(page, act):
    """Waits for the next answer after an act."""
    answered = lambda: int(page.get_attribute("[data-answered]", "data-answered"))
    before = answered()
    act()
    deadline = time.monotonic() + 60
    while answered() == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def loss(run, checkpoint, edits):
    """The loss that a page shows, by `opto.run` and NumPy."""
    model = icl.load(run.run.path, checkpoint).model
    batch = jax.tree.map(lambda x: x[:256], run.evaluations["train"])
    logits, record = opto.run(
        model, *run.task.inputs(batch), edits=edits, record="**.pattern"
    )
    logits = np.asarray(logits, np.float64)[:, -1]
    right = np.asarray(batch.labels)[:, -1]
    log = logits - logits.max(1, keepdims=True)
    log -= np.log(np.exp(log).sum(1, keepdims=True))
    return -log[np.arange(len(right)), right].mean(), record


def shown(page):
    """The metric and that without ablation, as the page shows them."""
    return [float(x) for x in re.findall(r"[\d.e-]+", page.inner_text(".opto-number"))]


def test_a_click_ablates_and_the_slider_moves_through_training(run, server, browser):
    with opened(browser, server.address) as page:
        every = run.run.checkpoints
        bare, _ = loss(run, every[-1], [])
        assert shown(page) == pytest.approx([bare, bare], rel=1e-3)
        assert page.inner_text("h1") == run.run.path.name
        head = page.get_by_role("button", name="layer 1, head 1")
        after(page, head.click)
        zero = [opto.Zero("**.z", heads="1:1")]
        assert shown(page)[0] == pytest.approx(loss(run, every[-1], zero)[0], rel=1e-3)
        assert head.get_attribute("aria-pressed") == "true"
        other = page.get_by_role("button", name="layer 0, head 0")
        after(page, lambda: other.click(modifiers=["Shift"]))
        both = [opto.Zero("**.z", heads="1:1 0:0")]
        assert page.inner_text(".opto-text") == (
            "edits = [opto.Zero('**.z', heads=\"1:1 0:0\")]"
        )
        # Edits stay in force while the slider moves; the pattern is the checkpoint's.
        slide = "e => { e.value = 0; e.dispatchEvent(new Event('input')); }"
        after(page, lambda: page.eval_on_selector("#checkpoint", slide))
        first, record = loss(run, every[0], both)
        assert shown(page)[0] == pytest.approx(first, rel=1e-3)
        page.focus("canvas.opto-large")
        for key in ("ArrowDown", "ArrowDown"):  # The first one comes to the map.
            page.keyboard.press(key)
        told = page.inner_text(".opto-told >> nth=0")
        wanted = np.asarray(record["blocks.0.attn.pattern"])[0, 0, 1, 0]
        assert float(told.rsplit(" ", 1)[1]) == pytest.approx(wanted, abs=6e-4)
        after(page, page.get_by_text("no ablation").click)
        assert shown(page)[0] == shown(page)[1]


def test_with_the_keyboard_alone_on_a_narrow_screen(run, server, browser):
    size = {"width": 390, "height": 800}
    with opened(browser, server.address, viewport=size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.focus(".opto-grid button[tabindex='0']")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        after(page, lambda: page.keyboard.press("Enter"))
        wanted, _ = loss(run, -1, [opto.Zero("**.z", heads="1:1")])
        assert shown(page)[0] == pytest.approx(wanted, rel=1e-3)
        page.focus("#checkpoint")
        after(page, lambda: page.keyboard.press("Home"))
        first = run.run.checkpoints[0]
        wanted, _ = loss(run, first, [opto.Zero("**.z", heads="1:1")])
        assert shown(page)[0] == pytest.approx(wanted, rel=1e-3)


def test_an_exported_page_needs_no_server(run, tmp_path, capsys, browser):
    file = tmp_path / "page.html"
    arguments = ["look", run.run.path, "--beside", run.run.path, "--export", file]
    status, out, _ = call(capsys, *arguments)
    assert (status, out.strip()) == (0, str(file))
    with opened(browser, file.as_uri()) as page:
        assert page.locator(".side").count() == 2
        slide = "e => { e.value = 0; e.dispatchEvent(new Event('input')); }"
        after(page, lambda: page.eval_on_selector("#checkpoint", slide))
        wanted, _ = loss(run, run.run.checkpoints[0], [])
        assert shown(page)[0] == pytest.approx(wanted, rel=1e-3)


def test_a_shown_record_answers_in_a_page(run, tmp_path, browser):
    batch = jax.tree.map(lambda x: x[:3], run.evaluations["train"])
    _, record = opto.run(run.model, *run.task.inputs(batch), record="**.pattern")
    tokens = ["<script>x</script>", "b", "c", "d", "e"]
    file = opto.show(record, tokens=tokens).save(tmp_path / "shown.html")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.focus("canvas.opto-large")
    page.keyboard.press("PageDown")
    for key in ("ArrowDown", "ArrowDown"):  # The first one comes to the map.
        page.keyboard.press(key)
    wanted = np.asarray(record["blocks.0.attn.pattern"])[1, 0, 1, 0]
    told = page.inner_text(".opto-told")
    assert told == f"query b (1), key <script>x</script> (0): {wanted:.3f}"
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(file.as_uri())
    assert plain.locator("img").count() == page.locator(".opto-grid button").count()


def test_edits_are_in_force_at_first(run):
    edits = (opto.Zero("blocks.0.attn.z", head=2),)
    side = Side(Subject(run, "train", edits))
    about, question = side.about(), {"set": "train", "checkpoint": 320}
    assert (about["edits"], about["chosen"]) == ([repr(edits[0])], [0])
    for chosen, those in ((about["chosen"], edits), ([], [])):
        found = side.answer(question | {"choice": {"edits": chosen}})
        assert found["metric"] == pytest.approx(loss(run, 320, those)[0], rel=1e-4)


def test_only_who_has_the_address_gets_an_answer(server):
    host, port = server.server_address
    question = json.dumps({"side": 0, "set": "train", "checkpoint": -1, "choice": {}})

    def status(path, host=f"127.0.0.1:{port}", body=question):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", path, body, {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()

    assert host == "127.0.0.1"
    good = f"/answer?token={server.token}"
    assert status(good)[0] == 200
    assert status("/answer")[0] == 403
    assert status("/answer?token=guess")[0] == 403
    assert status(good, host="evil.example")[0] == 403
    assert status(f"/other?token={server.token}")[0] == 404
    assert status(good, body="{")[0] == 400
    for body in ("[]", '{"side": 9}', '{"side": 0}', '{"side": 0, "set": "none"}'):
        code, text = status(good, body=body)
        assert (code, [*json.loads(text)]) == (200, ["wrong"])
