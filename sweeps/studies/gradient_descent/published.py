"""What von Oswald et al. (2023) and two public repositories report, and our figures."""

from ...figures import Published


PAPER = "Transformers learn in-context by gradient descent, 2212.07677"
STORY = (
    "We see the paper's story: one layer of linear attention does one step of "
    "gradient descent, two layers do GD++, and a layer that is applied again and "
    "again stays near descent (after 50 layers, 1.1 times its loss, over eight "
    "seeds). With noisy pairs, one layer reaches the loss of the rate that is best "
    "for this noise, in all seeds. The order of a context cannot matter to linear "
    "attention, and does not; the public study reports that it does. Noise is on "
    "the pairs of a context, not on the value asked for."
)

PUBLISHED = (
    Published(
        "2", "one layer does one step of descent", "gd/alignment_metrics", ("lsa-1: *",)
    ),
    Published("2 (o.o.d.)", "points of another scale", "gd/ood_curve"),
    Published(
        "3", "two layers do GD++", "gd/alignment_metrics", ("lsa-2: *", "GD++ 2: *")
    ),
    Published(
        "notebook, cell 10",
        "one layer, applied again and again",
        "gd/compare_gd_vs_transformer",
    ),
    Published("? (order)", "orders of the context", "gd/order_sensitivity"),
    Published("? (noise)", "noisy pairs of the context", "gd/noise_robustness"),
    Published("? (attention)", "attention to noisy pairs", "gd/attention_separation"),
    Published("a plan", "deep transformers, layer by layer", "gd/depth"),
    Published("ours", "seeds that find no descent", "gd/second_basin"),
    Published(
        "4",
        "non-linear regression with MLPs",
        reason="the tasks of sine waves are not among ours",
    ),
)
