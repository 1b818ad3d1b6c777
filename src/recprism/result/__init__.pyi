from recprism.result.result import Result as Result
