from recprism.dials.named import Dials as Dials
from recprism.dials.named import lists_to_dials as lists_to_dials
from recprism.dials.result import CompiledVectors as CompiledVectors
from recprism.dials.solve import lists_to_vectors as lists_to_vectors
