"""The paper's related systems, one in each file, to be compared with: `facts` says what each is, and how faithful."""

from experiments.related.barrier import LogBarrier
from experiments.related.base import Related
from experiments.related.dope import Dope
from experiments.related.facts import NOT_RUN, Facts, Fidelity, NotRun
from experiments.related.hysrl import HySRL
from experiments.related.optpess import OptPess
from experiments.related.rf_express import RFExpress
from experiments.related.sweet import Sweet
from experiments.related.transfer import ExplorationTransfer
from experiments.related.vi_zero import VIZero

ALL: tuple[type[Related], ...] = (RFExpress, VIZero, Sweet, OptPess, Dope, LogBarrier, HySRL, ExplorationTransfer)

__all__ = [
    "ALL",
    "NOT_RUN",
    "Dope",
    "ExplorationTransfer",
    "Facts",
    "Fidelity",
    "HySRL",
    "LogBarrier",
    "NotRun",
    "OptPess",
    "RFExpress",
    "Related",
    "Sweet",
    "VIZero",
]
