from recprism.report.collect import gather as gather
from recprism.report.headline import Headline as Headline
from recprism.report.headline import Statement as Statement
from recprism.report.html import render as render
from recprism.report.page import write_report as write_report
