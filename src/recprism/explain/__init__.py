"""What changed, what it did, and how one knows: explanations of the difference between two sets of factors."""

from recprism.explain.axes import Axes, canonical
from recprism.explain.build import explain, explain_lists
from recprism.explain.change import Change
from recprism.explain.controls import Controls, run_controls
from recprism.explain.directions import Direction, Directions, directions
from recprism.explain.erasure import Erasure, erase
from recprism.explain.explanation import Explanation
from recprism.explain.judge import Judge
from recprism.explain.naming import Labels, Name, name_coordinates
from recprism.explain.parts import Parts, bias_and_rest
from recprism.explain.swaps import Swaps, find_swaps
from recprism.explain.verdict import Verdict
from recprism.explain.views import view_item, view_user

__all__ = [
    "Axes",
    "Change",
    "Controls",
    "Direction",
    "Directions",
    "Erasure",
    "Explanation",
    "Judge",
    "Labels",
    "Name",
    "Parts",
    "Swaps",
    "Verdict",
    "bias_and_rest",
    "canonical",
    "directions",
    "erase",
    "explain",
    "explain_lists",
    "find_swaps",
    "name_coordinates",
    "run_controls",
    "view_item",
    "view_user",
]
