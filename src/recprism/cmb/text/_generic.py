"""Nouns that are not features of products: words about time, people and buying, and vague words.

The list does not depend on a kind of product: words that can be a feature (case, level, set, delivery) are not in it.
"""

from __future__ import annotations

TIME = """time year month week day hour minute second moment decade age while night morning today tomorrow yesterday
weekend season future past present daily start beginning end finish life lifetime"""

PEOPLE = """person people guy man woman kid child boy girl son daughter wife husband friend family brother sister father
mother dad mom grandson nephew everyone everybody anyone anybody someone somebody nobody user owner customer buyer
seller reviewer beginner expert professional teacher student fan mate hand finger foot arm head body eye ear"""

BUYING = """money dollar buck cent penny purchase buy deal bargain sale order shipment arrival
return refund review reviewer rating star recommendation opinion comment description store shop company manufacturer
maker brand website site amazon ebay internet online product item unit device model version article gadget gear
equipment replacement upgrade investment"""

VAGUE = """thing something anything nothing everything stuff lot bit bunch ton couple number amount plenty none
one other another kind sort type form way manner part piece rest half side top bottom front middle place area spot
point fact idea reason cause matter question answer example instance difference change problem issue trouble
complaint concern trick job work task use usage purpose need want wish hope love like choice option decision chance
experience result try test word name note detail feature thought mind sense feel look life world line list step
minus plus con pro favor regard respect term right left wrong great good better best bad worse worst fine perfect okay
ok wow yes no thank thanks mine yours course total extent standard average basis addition advantage benefit condition
problem position line room house home car desk floor wall door table city country state town street
fun joy mistake luck business practice game deal"""

GENERIC = frozenset(f"{TIME} {PEOPLE} {BUYING} {VAGUE}".split())
