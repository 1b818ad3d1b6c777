from recprism.models.adapters.als import ImplicitALS as ImplicitALS
from recprism.models.adapters.arrays import from_files as from_files
from recprism.models.adapters.cornac import from_cornac as from_cornac
from recprism.models.adapters.implicit import from_implicit as from_implicit
from recprism.models.adapters.lenskit import from_lenskit as from_lenskit
from recprism.models.adapters.recbole import from_recbole as from_recbole
from recprism.models.adapters.scores import ScoredCandidates as ScoredCandidates
