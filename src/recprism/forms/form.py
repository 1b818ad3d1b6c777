"""Forms: what a result is exported as. Words become a :class:`Form` where they enter; inside, forms are objects.

A new form is a subclass of :class:`Form` or of :class:`CompiledForm`, and a call of :func:`register_form`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from recprism.budget.problem import Problem
from recprism.budget.promise import Promise
from recprism.budget.sticky import StickyProblem
from recprism.common.progress import ProgressCallback
from recprism.common.shares import Share, share
from recprism.errors import InputError
from recprism.forms.compiled import compile_dials, measured_loss, rule_at_share, with_boosts
from recprism.forms.dials import lists_to_vectors
from recprism.forms.dials.steering import steered
from recprism.forms.rule_export import collect_rule
from recprism.forms.rule_file import RuleFile
from recprism.forms.vectors import Export, export_vectors, require_exportable
from recprism.models import Factors
from recprism.rule.boosts import boosted
from recprism.rule.rule import Rule


class Written(Protocol):
    """What an export wrote."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""

    def sentences(self, folder: Path) -> list[str]:
        """Return the lines to print."""


@dataclass(frozen=True, eq=False)
class Source:
    """What forms need of a result.

    Attributes:
        problem: The judged context.
        rule: What makes the lists; None without one.
        vectors: Those that players found; None without a search.
        objective: The metric of the goal; None if the lists did not change.
        steering: User id -> category -> what users set for themselves.
        origin: Names of the run and of the result, and the fingerprint of the run.
        promise: Hash of what was tested -> the certificate of the rule, as it travels; None without one.
        certify: Finds the furthest rule whose lists of a form keep its budgets, with its certificate.
        on_step: Receives progress.
    """

    problem: Problem
    rule: Rule | None
    vectors: Factors | None
    objective: str | None
    steering: Mapping[Any, Any]
    origin: Mapping[str, Any]
    promise: Callable[[str], Promise | None]
    certify: Callable[[CompiledForm], tuple[Rule, Promise | None]]
    on_step: ProgressCallback | None = None

    def rule_for(self, form: Form) -> Rule:
        """Return the rule; refuse a result without one."""
        if self.rule is None:
            raise InputError(
                f"--form {form.name} needs a rule, and no rule makes these lists; run `recprism diversify` first, or "
                "choose --form vectors"
            )
        return self.rule


@dataclass(frozen=True, kw_only=True, eq=False)
class Form(ABC):
    """One form of a result. Its fields are its options.

    Attributes:
        name: Its name, as in ``--form``.
        needs_rule: Whether the result must have a rule.
        is_served: Whether `recprism serve` reads what it writes.

    Stability: experimental.
    """

    name: ClassVar[str]
    needs_rule: ClassVar[bool] = True
    is_served: ClassVar[bool] = False

    @abstractmethod
    def write(self, source: Source, folder: Path) -> Written:
        """Write a result into a new folder."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleForm(Form):
    """The rule itself, for lists and reasons at request time.

    Attributes:
        vectors: Whether the file includes item vectors, to rank by a user vector.
        histories: Whether the file includes the histories of the users, so that a request may name the user instead of
            giving a history. They are personal data.
    """

    name = "rule"
    is_served = True
    vectors: bool = True
    histories: bool = False

    def write(self, source: Source, folder: Path) -> RuleFile:
        rule, live = source.rule_for(self), source.problem.live()
        if isinstance(source.problem, StickyProblem):
            raise InputError(
                "this result keeps items of older lists, which a rule at request time does not know; export "
                "--form user-vectors or dials"
            )
        with_vectors = self.vectors and isinstance(source.problem.base, Factors)
        made = collect_rule(live, rule, vectors=with_vectors, histories=self.histories)
        about = {**made.about, **source.origin, "fallback_share": live.fallback_share(rule)}
        made = replace(made, certificate=source.promise(made.tested()), about=about)
        made.write(folder)
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorForm(Form):
    """A form that is written as vectors.

    Attributes:
        to: File format: safetensors, npz, parquet, csv or faiss.
        alpha: Share of the rule's trade-off, compiled again; 0 is the trained model.
        metric: The metric of the index; by default the model's own.
        margin: As in :func:`recprism.forms.vectors.export_vectors`.
        for_index: As in :func:`recprism.forms.vectors.export_vectors`.
    """

    to: str = "safetensors"
    alpha: Share = 1.0
    metric: str | None = None
    margin: Share | None = None
    for_index: str | Path | None = None

    def write(self, source: Source, folder: Path) -> Export:
        base, alpha = source.problem.factors, share(self.alpha, "alpha")  # scores without vectors are refused
        kept = source.problem.constraints
        if isinstance(kept.per_user_diversity, np.ndarray):  # it is in the lists already
            kept = replace(kept, per_user_diversity=None)
        about = {"form": self.name, "alpha": alpha, **source.origin, "constraints": kept.to_dict()}
        factors, rule, tested = self.made(source, alpha) if alpha else (base, None, {})
        return export_vectors(
            source.problem.live(),
            factors,
            folder,
            self.to,
            about={**about, **tested},
            metric=self.metric,
            margin=self.margin,
            for_index=self.for_index,
            rule=rule,
            objective=source.objective if alpha else None,
            on_step=source.on_step,
        )

    @abstractmethod
    def made(self, source: Source, alpha: float) -> tuple[Factors, Rule | None, dict[str, Any]]:
        """Return the vectors, the rule that they were compiled from, and what is known about their lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnVectors(VectorForm):
    """The vectors of the trained model, or those that players found."""

    name = "vectors"
    needs_rule = False

    def made(self, source: Source, alpha: float) -> tuple[Factors, Rule | None, dict[str, Any]]:
        if source.rule is not None:
            others = ", ".join(name for name, it in FORMS.items() if it.needs_rule)
            raise InputError(f"the rule of this result is in no vectors; choose --form {others}")
        if alpha != 1:
            raise InputError("players found this change, and there is no smaller one; --alpha is 0 or 1 here")
        return source.vectors or source.problem.factors, None, {}


@dataclass(frozen=True, kw_only=True, eq=False)
class CompiledForm(VectorForm):
    """A form that a rule is compiled into, for the context whose lists it is to return.

    Attributes:
        new_users: A sentence about users for whom nothing was compiled.
        budgets: Metric -> the share of it that lists of this form may lose. Every step of the path is compiled for the
            users who judge; the furthest certified one is exported. It is one further question to the labels.
        confidence: Of that certificate.

    Stability: experimental.
    """

    new_users: ClassVar[str]
    budgets: Mapping[str, Share] | None = None
    confidence: Share = 0.95

    @abstractmethod
    def compile(self, problem: Problem, rule: Rule) -> Factors:
        """Return vectors for the lists of a rule in one context."""

    def for_users(self, source: Source, rule: Rule) -> Factors:
        """Return the vectors of the live lists, with what users set for themselves."""
        return self.compile(source.problem.live(), rule)

    def write(self, source: Source, folder: Path) -> Export:
        source.rule_for(self)
        if self.budgets and self.alpha == 0:
            raise InputError("these vectors are not compiled from a rule, so no --budget can certify them; omit it")
        return super().write(source, folder)

    def made(self, source: Source, alpha: float) -> tuple[Factors, Rule | None, dict[str, Any]]:
        if self.budgets is None:
            rule = rule_at_share(source.rule_for(self), alpha, source.problem)
            tested: dict[str, Any] = {"measured": measured_loss(source.problem, rule, self)}
        else:
            if alpha != 1 or isinstance(source.problem, StickyProblem):
                why = "it keeps older lists" if alpha == 1 else "a budget finds the trade-off itself"
                raise InputError(f"{why}, so --alpha and --budget do not go together here; omit one of them")
            # The rule of the result is compiled first: what this form refuses is refused before labels are asked.
            tried = self.for_users(source, source.rule_for(self))
            require_exportable(tried, self.to, metric=self.metric, margin=self.margin, for_index=self.for_index)
            rule, promise = source.certify(self)
            tested = {"certificate": None if promise is None else promise.to_dict()}
        return self.for_users(source, rule), rule, tested

    def to_dict(self) -> dict[str, Any]:
        """Return how lists are compiled, in plain values: questions to the labels differ by it."""
        files = {it.name for it in fields(CompiledForm)}
        own = {it.name: getattr(self, it.name) for it in fields(self) if it.name not in files}
        return {"form": self.name, **own}


@dataclass(frozen=True, kw_only=True, eq=False)
class DialsForm(CompiledForm):
    """A few named weights per user."""

    name = "dials"
    new_users = (
        "Dials belong to users of the run: users without dials of their own kept 30 % of the rule's gain in category "
        "coverage on MovieLens-1M, and 9 % on CDs (docs/design/carry.md)."
    )

    def compile(self, problem: Problem, rule: Rule) -> Factors:
        return compile_dials(problem, rule).applied_to(with_boosts(problem.factors, rule))

    def for_users(self, source: Source, rule: Rule) -> Factors:
        dials, base = compile_dials(source.problem.live(), rule), source.problem.factors
        own = {
            user: {name: it for name, it in mine.items() if name in dials.names}
            for user, mine in source.steering.items()
        }
        return steered(dials, base, {user: it for user, it in own.items() if it}).applied_to(with_boosts(base, rule))


@dataclass(frozen=True, kw_only=True, eq=False)
class UserVectors(CompiledForm):
    """User vectors; an index of items stays as it is."""

    name = "user-vectors"
    new_users = "User vectors belong to users of the run: new users get base lists until theirs are compiled."

    def compile(self, problem: Problem, rule: Rule) -> Factors:
        # A user's own vector can hold the order of a list, too.
        lists, base = problem.rank(rule)[0], problem.factors
        return lists_to_vectors(base, lists, exclude=problem.hidden, order=True).applied_to(base)


@dataclass(frozen=True, kw_only=True, eq=False)
class Boosts(CompiledForm):
    """A number per item, for goals of exposure."""

    name = "boosts"
    new_users = "Boosts belong to items: new users get them, too. What they keep there was not measured."

    def compile(self, problem: Problem, rule: Rule) -> Factors:
        if rule.boosts is None or not rule.for_exposure_alone:
            raise InputError("boosts are for goals of exposure alone, such as gini; choose another form or goal")
        return boosted(problem.factors, rule.boosts)


FORMS: dict[str, type[Form]] = {}
"""The forms, by name."""


def register_form(form: type[Form]) -> None:
    """Make a form known by its name.

    Stability: experimental.
    """
    FORMS[form.name] = form


for _form in (RuleForm, DialsForm, UserVectors, Boosts, OwnVectors):
    register_form(_form)


def form_named(form: str | Form, **options: Any) -> Form:
    """Return the form of a name, with its options.

    Raises:
        InputError: If there is no such form, or if it has no such option.
    """
    kind = FORMS.get(form) if isinstance(form, str) else type(form)
    if kind is None:
        *names, last = FORMS
        raise InputError(f"a result is exported as {', '.join(names)} or {last}, not as {form!r}")
    for name in options:
        if name not in options_of(kind):
            raise InputError(f"{name} has no effect on --form {kind.name}; omit it, or choose another form")
    return kind(**options) if isinstance(form, str) else replace(form, **options)


def options_of(form: type[Form]) -> tuple[str, ...]:
    """Return the names of the options of a form."""
    return tuple(it.name for it in fields(form))


def default_form(has_rule: bool) -> str:
    """Return the form of a result for which none was named: the first one that fits."""
    return next(name for name, it in FORMS.items() if it.needs_rule == has_rule)


def compiled_form(name: str) -> CompiledForm:
    """Return the form of a name that rules are compiled into.

    Raises:
        InputError: If a rule is not compiled into such a form.
    """
    names = [it for it, form in FORMS.items() if issubclass(form, CompiledForm)]
    if name not in names:
        raise InputError(f"a rule is compiled into {', '.join(names)}, not into {name!r}")
    form = form_named(name)
    assert isinstance(form, CompiledForm)
    return form
