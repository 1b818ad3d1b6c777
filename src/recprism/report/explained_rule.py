"""The explanation of a rule on the page: what it does over all users, and the reason of every new item of some."""

from __future__ import annotations

from recprism.budget.audit import COST
from recprism.budget.diversified import Diversified
from recprism.budget.scenario import Scenario
from recprism.data.progress import ProgressCallback
from recprism.explain.factors._highlights import highlight_users
from recprism.report.content import ExplainedRule, User, known
from recprism.report.explained import changes_of, entries
from recprism.rerank.rule import Rule
from recprism.runs._catalogue import Catalogue
from recprism.runs.jobs.explain import explain_found
from recprism.runs.jobs.reasons import newcomer_reasons
from recprism.runs.run import Run


def rule_content(
    run: Run, scenario: Scenario, found: Diversified, *, draws: int, seed: int, tell: ProgressCallback
) -> ExplainedRule:
    """Explain the lists of a rule, and describe ten users.

    Args:
        run: A diversified run.
        scenario: What is served.
        found: The result of the run; a rule made its lists.
        draws: Draws of each shuffle of categories; 0 runs none.
        seed: Seed of the choice model.
        tell: Receives progress.
    """
    assert found.rule is not None
    explained = explain_found(found, scenario, draws=draws, seed=seed, on_step=tell)
    model, sentences = explained.choice_model, explained.sentences()
    return ExplainedRule(
        sentence=" ".join([sentences[0], *([] if model is None else model.sentences()[:1])]),
        sentences=tuple(sentences),
        explained=None if model is None else known(model.explained),
        categories=() if explained.account is None else tuple(explained.account.table()),
        users=tuple(_users(run, scenario, found, found.rule, tell)),
    )


def _users(run: Run, scenario: Scenario, found: Diversified, rule: Rule, tell: ProgressCallback) -> list[User]:
    names = (found.objective, *((COST,) if len(scenario.split.part(scenario.part)) else ()))
    lists = scenario.base_lists, scenario.rank(found.model)[0]
    values = scenario.judge(lists[0], names), scenario.judge(lists[1], names)
    chosen = highlight_users(lists, values, found.objective, COST)
    catalogue = Catalogue(run.items(), scenario.subtopics)
    titles = dict(zip(catalogue.ids, catalogue.titles, strict=True))
    made = []
    for done, one in enumerate(chosen, start=1):
        before, after = (it[one.row] for it in lists)
        reasons = newcomer_reasons(scenario, rule, one.row, after, titles.__getitem__, found.into)
        places = [(at, int(item)) for at, item in enumerate(after, start=1)]
        ranks: dict[int, tuple[str, ...]] = {at: (reasons[it],) for at, it in places if it in reasons}
        made.append(
            User(
                str(scenario.split.user_ids[one.row]),
                one.reason,
                changes_of(values, names, one.row),
                entries(before, after, {}, catalogue, "gone"),
                entries(after, before, ranks, catalogue, "new"),
            )
        )
        tell("users", done, len(chosen))
    return made
