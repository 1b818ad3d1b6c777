from recprism.integrations.haystack import RecprismRanker as RecprismRanker
