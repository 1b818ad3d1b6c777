from recprism.dials.query_adapter import Adapter as Adapter
from recprism.dials.query_adapter import AdapterSettings as AdapterSettings
from recprism.dials.result import CompiledVectors as CompiledVectors
from recprism.dials.solve import bake as bake
from recprism.dials.solve import hold as hold
from recprism.dials.transfer import carried as carried
from recprism.dials.transfer import items_like as items_like
