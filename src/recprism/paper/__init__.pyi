from recprism.paper.fronts import Front as Front
from recprism.paper.fronts import frontier as frontier
from recprism.paper.tables import Row as Row
from recprism.paper.tables import paper_table as paper_table
