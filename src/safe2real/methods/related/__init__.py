"""The paper's related systems, one in each file, to be compared with: `facts` says what each is, and how faithful."""

from safe2real.methods.related.barrier import LogBarrier
from safe2real.methods.related.base import Related
from safe2real.methods.related.dope import Dope
from safe2real.methods.related.facts import NOT_RUN, Facts, Fidelity, NotRun
from safe2real.methods.related.hysrl import HySRL
from safe2real.methods.related.optpess import OptPess
from safe2real.methods.related.rf_express import RFExpress
from safe2real.methods.related.sweet import Sweet
from safe2real.methods.related.transfer import ExplorationTransfer
from safe2real.methods.related.vi_zero import VIZero

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
