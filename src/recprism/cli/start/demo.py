"""recprism demo: the whole job on the embedded data, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli.diversity.audit import print_paths
from recprism.cli.model.evaluate import print_evaluation
from recprism.cli.model.train import start_run, train_with_progress
from recprism.cli.pages.report import report_with_progress
from recprism.common.command_line import command_line
from recprism.errors import InputError
from recprism.runs.config import BudgetConfig, ModelConfig, RunConfig

if TYPE_CHECKING:
    import polars as pl

    from recprism.metrics import Evaluation
    from recprism.runs.run import Run


BUDGET = 0.05
EVENT = "demo"
DRAWS = 99  # of each control: enough for p-values of 0.01


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The run directory; a run that the demo made there is replaced.")
    ] = Path("runs/demo"),
    model: Annotated[str, typer.Option(help="bprmf or lightgcn.")] = "bprmf",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace any run that is there, also one that was changed.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """See the whole job on embedded MovieLens data, in about a minute.

    The demo trains a recommender, measures its lists, audits the cost of diversity, diversifies within 5 % of NDCG@10,
    and writes a report. It downloads nothing.

    Examples:

    - `recprism demo`
    - `recprism demo --model lightgcn -o runs/gcn-demo`
    """
    from recprism.budget.audit import COST, cost_of_diversity
    from recprism.runs.jobs.diversify import diversify_within
    from recprism.runs.jobs.train import evaluate_run, recommend
    from recprism.runs.parts.questions import keep_audit

    say("1/7 load and split the embedded MovieLens data (ratings of 4 and more are positives)")
    if not overwrite:
        require_own(output)
    run = start_run(output, RunConfig(seed=seed, device=device, model=ModelConfig(name=model)), overwrite=True)
    _note(run, "begun")
    say(f"2/7 train {model}, stopping when validation NDCG@10 no longer rises")
    factors = train_with_progress(run)
    trained = factors.settings
    say(f"    {factors.dim} factors, best after {trained['best_epoch']} of {trained['epochs_trained']} epochs")
    say("3/7 measure accuracy and diversity on the test part")
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            result = evaluate_run(run, on_step=on_step)
        with saving():
            run.save_metrics(result.to_frame())
    say("4/7 audit: what more categories in the lists would cost, certified on the validation part")
    with progress_of_steps() as on_step:
        problem, asked = run.problem(), BudgetConfig(budgets={COST: BUDGET})
        cost = cost_of_diversity(problem, [asked.question], show=BUDGET, on_step=on_step)
    keep_audit(problem, cost)
    say(f"5/7 diversify: find the rule with the most categories for at most {BUDGET:.0%} of NDCG@10")
    with progress_of_steps() as on_step:
        kept = diversify_within(run, asked, on_step=on_step)
    say("6/7 recommend ten unseen items to every user: live lists, in which all known history counts")
    with run.unchanged() as saving:
        lists, _ = recommend(run, 10)
        with saving():
            run.save_recommendations(lists)
    say("7/7 write the report, with its controls")
    page = run.report_path
    report_with_progress(run, page, draws=DRAWS)
    _note(run, "finished")
    if as_json:
        print_json({"run": str(run.path), **result.to_dict(), "cost": cost.to_dict(), "report": str(page)})
    else:
        _show_one_user(run, lists)
        print_evaluation(result, (), as_json=False, about=f"\n{run.path}, on the test part")
        print_sentence(_verdict(result))
        print_paths(cost)
        if kept.certificate is not None:
            print_sentence(f"the rule: {kept.certificate.sentence()}")
        print_sentence(f"the report: {page} (open it in a browser; it needs no network)")
    say(f"everything is in {run.path}: settings, events, vectors, lists and figures, in open formats")
    next_step(run.command("explain"), run.command("audit"), _against_other_model(run))
    say("your own lists: recprism evaluate-lists LISTS.csv --items ITEMS.csv --category-column genres")


def _against_other_model(run: Run) -> str:
    """Write the commands that train another model on the same split, if it is not there, and compare the lists."""
    from recprism.runs.run import Run

    config = run.config
    model = "bprmf" if config.model.name == "lightgcn" else "lightgcn"
    path = run.path.with_name(f"{run.path.name}-{model}")
    device = None if config.device == "auto" else config.device
    train = command_line("train", model=model, output=path, seed=config.seed or None, device=device)
    compare = command_line("evaluate", path, against=run.path)
    return compare if Run(path).has_factors() else f"{train} && {compare}"


def require_own(path: Path) -> None:
    """Refuse to replace a run that the demo did not make, or that another command has changed since."""
    from recprism.runs.parts.questions import ASKED
    from recprism.runs.run import Run

    if not Run.is_at(path):
        return
    run = Run.open(path)
    events = run.events(without=(ASKED,))  # an audit does not change the run
    noted = [event for event in events if event["event"] == EVENT]
    is_own = bool(noted) and not run.results
    if is_own and noted[-1]["state"] == "finished":
        is_own = events[-1] == noted[-1] and noted[-1]["config"] == run.config.model_dump_json()
    if not is_own:
        raise InputError(f"{path}: holds a run that the demo did not make or that was changed; use --overwrite or -o")


def _note(run: Run, state: str) -> None:
    run.event(EVENT, state=state, config=run.config.model_dump_json())


def _show_one_user(run: Run, lists: pl.DataFrame) -> None:
    first = lists.filter(lists["user_id"] == lists["user_id"][0]).join(
        run.items(), on="item_id", how="left", maintain_order="left"
    )
    print_title(f"the live list of user {first['user_id'][0]}:")
    print_table(("rank", "title", "genres"), first.select("rank", "title", "genres").rows(), numeric=("rank",))


def _verdict(result: Evaluation) -> str:
    """The figures in a sentence."""
    names = ("subtopic_coverage@10", "catalogue_coverage@10", "gini@10", "tail_share@10")
    covered, reached, gini, tail = (result[name].mean for name in names)
    return (
        f"in words: a list of ten shows {covered:.0%} of the genres, all lists together {reached:.0%} of the catalogue"
        f" (Gini {gini:.2f}), and {tail:.0%} of the places go to items outside the popular head"
    )
