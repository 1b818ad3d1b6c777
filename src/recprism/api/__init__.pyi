from recprism.api.estimator import Diversifier as Diversifier
from recprism.api.loading import from_arrays as from_arrays
from recprism.api.loading import from_frames as from_frames
from recprism.api.loading import load as load
from recprism.api.verbs import audit as audit
from recprism.api.verbs import diversify as diversify
