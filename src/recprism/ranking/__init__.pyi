from recprism.ranking.blocks import topk_blocks as topk_blocks
from recprism.ranking.exact import topk as topk
