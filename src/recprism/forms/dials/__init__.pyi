from recprism.forms.dials.named import Dials as Dials
from recprism.forms.dials.named import lists_to_dials as lists_to_dials
from recprism.forms.dials.result import CompiledVectors as CompiledVectors
from recprism.forms.dials.solve import lists_to_vectors as lists_to_vectors
