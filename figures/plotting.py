"""How the notebooks show a figure: the same bytes every time, and its words beside it."""

import io
from typing import Any

COLOURS = ("#1b6ca8", "#c8553d", "#3f8f5f", "#8a6fb0", "#b08d2f", "#5f6b73")
SIZE = (7.2, 3.4)  # inches


def axes(columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """(figure, its axes) in the course's style: thin lines, no box around."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=110, layout="constrained")
    places = figure.subplots(1, columns, **options)
    for place in [places] if columns == 1 else places:
        place.spines[["top", "right"]].set_visible(False)
        place.grid(axis="y", linewidth=0.4, alpha=0.6)
        place.set_prop_cycle(color=COLOURS)
    return figure, places


def show(figure: Any, alt: str) -> None:
    """Display a figure as a PNG; ``alt`` says in words what it shows."""
    from IPython.display import display

    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    data = {"image/png": picture.getvalue(), "text/plain": alt}
    display(data, raw=True, metadata={"image/png": {"alt": alt}})
