"""Losses: what makes images of a class look alike."""

from lookalike.losses.base import *
from lookalike.losses.contrastive import *
from lookalike.losses.hist import *
from lookalike.losses.histogram import *
from lookalike.losses.lifted_structure import *
from lookalike.losses.margin import *
from lookalike.losses.modifiers import *
from lookalike.losses.multi_similarity import *
from lookalike.losses.ntxent import *
from lookalike.losses.proxies import *
from lookalike.losses.proxy_anchor import *
from lookalike.losses.proxy_nca import *
from lookalike.losses.quadruplet import *
from lookalike.losses.ranked_list import *
from lookalike.losses.ranking import *
from lookalike.losses.soft_triple import *
from lookalike.losses.softmax import *
from lookalike.losses.supcr import *
from lookalike.losses.triplet import *
from lookalike.losses.tuned import *
from lookalike.losses.wrappers import *
from lookalike.registry import LOSSES

create = LOSSES.create
names = LOSSES.names
