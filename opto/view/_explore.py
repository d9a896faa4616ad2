"""`opto.explore`: an explorer as a widget of a notebook."""

from collections.abc import Callable, Sequence
from typing import Any

from .._edit import AbstractEdit
from .._maps import asset
from ._explorer import Choice, Explorer, KINDS
from ._show import Tokens


def explore(
    model: Any,
    *inputs: Any,
    metric: Callable[..., Any],
    edits: Sequence[AbstractEdit] = (),
    outputs: str = "**.z",
    tokens: Tokens = None,
    labels: Sequence[str] | None = None,
) -> Any:
    """A grid of heads in a notebook: a click ablates one, and the metric answers.

    ```python
    loss = lambda logits, *inputs: …  # One number for the batch.
    opto.explore(model, *inputs, metric=loss)
    ```

    It shows the attention patterns and the logit lens of an example under the ablation,
    and the edits as text, to be copied into a script. Needs the extra `look`.

    **Arguments:**

    - `model`, `inputs`: As for `opto.run`; one example, or a batch of one axis.
    - `metric`: A function of the outputs and the inputs of the whole batch: one number.
    - `edits`: Edits to put in force, each with a box to tick.
    - `outputs`: The sites of what heads give, with an axis `head`.
    - `tokens`, `labels`: As for `opto.show` and `opto.show_lens`.

    **Returns:** An `anywidget.AnyWidget`; its `explorer` answers without a browser.

    **Raises:** `ValueError` as `opto.run`, and if no site has heads; `ImportError` with
    what to install.
    """
    explorer = Explorer(
        *(model, *inputs),
        metric=metric,
        edits=edits,
        outputs=outputs,
        tokens=tokens,
        labels=labels,
    )
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        wanted = "pip install 'icl-opto[look]'"
        raise ImportError(f"opto.explore needs anywidget: {wanted}") from error

    class Widget(anywidget.AnyWidget):
        _esm = "\n".join(asset(x) for x in ("maps.js", "explore.js", "widget.js"))
        _css = asset("maps.css")
        about = traitlets.Dict().tag(sync=True)
        first = traitlets.Dict().tag(sync=True)
        explorer: Explorer

    widget = Widget(about=about(explorer), first=explorer.answer(Choice()))
    widget.explorer = explorer

    def answered(_: Any, message: Any, __: Any) -> None:
        found = reply(explorer, message.get("choice"))
        widget.send({"number": message.get("number"), "answer": found})

    widget.on_msg(answered)
    return widget


def about(explorer: Explorer) -> dict[str, Any]:
    """What a page must know before the first answer."""
    name = getattr(explorer.metric, "__name__", "metric")
    return {
        "heads": explorer.heads,
        "edits": [repr(edit) for edit in explorer.edits],
        "kinds": KINDS,
        "metric": "metric" if name == "<lambda>" else name,
    }


def reply(explorer: Explorer, message: Any, model: Any = None) -> dict[str, Any]:
    """The answer to a page's message, or what is wrong with it."""
    try:
        return explorer.answer(Choice.read(message, explorer), model)
    except ValueError as error:
        return {"wrong": str(error)}
