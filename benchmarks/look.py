"""What pages weigh, and how fast they answer.

    make demo
    pip install playwright && apt install chromium    # for the last line
    python benchmarks/look.py

The clicks are those of a browser without a window on the same machine.
"""

import shutil
import statistics
import threading
import time
from collections.abc import Callable

import jax
import numpy as np

import icl
import opto
from icl.look import Server, Side
from icl.report.subject import Subject
from opto.view import Choice, Maps


RUN, CLICKS = "runs/demo", 30


def milliseconds(call: Callable[[], object], count: int = CLICKS) -> str:
    """The median and the largest of some calls, after a first one."""
    call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return f"median {statistics.median(times):.0f} ms, largest {max(times):.0f} ms"


def large() -> Maps:
    """Causal attention of 12 layers of 12 heads, 512 tokens."""
    weights = np.random.default_rng(0).gamma(0.2, size=(1, 144, 512, 512))
    weights = np.tril(weights.astype(np.float32))
    weights /= weights.sum(-1, keepdims=True)
    names = [[str(k) for k in range(512)]]
    heads = [f"head {k % 12}" for k in range(144)]
    layers = [f"layer {k // 12}" for k in range(144)]
    return Maps(weights, heads, layers, names, names, "query", "key", "pattern")


def in_a_browser(server: Server) -> str:
    """How long the page takes from a click on a head to the new pictures."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(server.address)
        page.wait_for_selector("[data-answered]")
        # The time is taken in the page.
        script = """async () => {
          const root = document.querySelector('[data-answered]');
          const button = document.querySelectorAll('.opto-grid button')[9];
          const before = root.dataset.answered, start = performance.now();
          button.click();
          const frame = () => new Promise(requestAnimationFrame);
          while (root.dataset.answered === before) await frame();
          return performance.now() - start;
        }"""
        times = [page.evaluate(script) for _ in range(CLICKS + 3)][3:]
        browser.close()
    return f"median {statistics.median(times):.0f} ms, largest {max(times):.0f} ms"


def main() -> None:
    trained = icl.load(RUN)
    few = jax.tree.map(lambda x: x[:16], trained.evaluations["train"])
    _, record = opto.run(trained.model, *trained.task.inputs(few), record="**.pattern")
    page = opto.show(record)._repr_html_()
    print(f"opto.show, demo, 16 sequences: {len(page.encode()):,} bytes")
    page = large().html()
    print(f"opto.show, 12 x 12 heads of 512 tokens: {len(page.encode()):,} bytes")
    print(f"the same: {milliseconds(large().html, 3)}")
    side = Side(Subject(trained, "train"))
    explorer = side.explorer("train")
    print(f"an answer, 256 sequences: {milliseconds(lambda: explorer.answer(CHOICE))}")
    with Server([side]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"the page of icl look: {len(server.page):,} bytes")
        print(f"a click in a browser: {in_a_browser(server)}")
        server.shutdown()


CHOICE = Choice(((1, 1), (1, 3)))


if __name__ == "__main__":
    main()
