"""What the site shows, in order: sections, and in each the pages of docs/ under their titles in the navigation.

A new page is one line here.
"""

from __future__ import annotations

__all__ = ["NAV"]

NAV: dict[str, dict[str, str]] = {
    "Guide": {
        "data.md": "Bring your own data",
        "options.md": "Which option when",
        "uncertainty.md": "Uncertainty",
        "samples.md": "How many samples",
        "adaptation.md": "Adaptation",
        "derivatives.md": "Derivatives",
        "tasks.md": "Quantities, inversion, design",
        "stages.md": "Stages that see space",
        "explorer.md": "A page to explore",
        "serving.md": "Serving over HTTP",
        "umbridge.md": "UM-Bridge",
        "cpp.md": "C++",
        "performance.md": "Performance",
        "reproducibility.md": "Reproducibility",
        "export.md": "Models for other programs",
        "scale.md": "Larger than memory",
        "migrating.md": "Coming from other libraries",
        "faq.md": "Questions",
    },
    "Gallery": {"gallery.md": "Gallery"},
    "Background": {
        "theory.md": "Theory",
        "paper_to_code.md": "From the paper to the code",
        "architecture.md": "Architecture",
        "model_file.md": "The model file",
        "reliability.md": "Reliability",
    },
}
