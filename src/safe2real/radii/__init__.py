"""How far a row's true successors can be from the observed ones: one radius in each file, `base.py` is the contract."""

from safe2real.radii.adaptive import Adaptive
from safe2real.radii.base import Radius, RowShape, System
from safe2real.radii.kl import KL
from safe2real.radii.literal import Literal, Scaled
from safe2real.radii.stitched import Stitched
from safe2real.radii.union import Union

ALL: tuple[type[Radius], ...] = (Literal, Scaled, KL, Union, Stitched, Adaptive)
"""Those of this package; one from elsewhere is passed as an object (docs/extending.md)."""

__all__ = ["ALL", "KL", "Adaptive", "Literal", "Radius", "RowShape", "Scaled", "Stitched", "System", "Union"]
