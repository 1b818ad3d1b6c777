from recprism.report.collect import gather as gather
from recprism.report.content import Headline as Headline
from recprism.report.content import Statement as Statement
from recprism.report.html import render as render
from recprism.report.page import write_report as write_report
