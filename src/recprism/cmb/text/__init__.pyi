from recprism.cmb.text.feature_folder import FeatureTables as FeatureTables
from recprism.cmb.text.reviews import Extraction as Extraction
from recprism.cmb.text.reviews import extract_features as extract_features
from recprism.cmb.text.reviews import read_reviews as read_reviews
