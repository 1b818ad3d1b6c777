from recprism.service.answers import Answer as Answer
from recprism.service.answers import ExplainedAnswer as ExplainedAnswer
from recprism.service.answers import Moved as Moved
from recprism.service.answers import SteeredAnswer as SteeredAnswer
from recprism.service.app import create_app as create_app
from recprism.service.client import Client as Client
from recprism.service.client import ServiceError as ServiceError
from recprism.service.settings import Settings as Settings
