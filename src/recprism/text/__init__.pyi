from recprism.text.feature_folder import FeatureTables as FeatureTables
from recprism.text.reviews import Extraction as Extraction
from recprism.text.reviews import extract_features as extract_features
from recprism.text.reviews import read_reviews as read_reviews
