"""Short runs along every way by which data come into the library; each is judged like the long ones.

A route takes the case, its judge, a generator and a flaw, and returns how likely it may fail by what the library says. What
is done (who tells when, what is abandoned, when a file is written) is drawn before an episode is seen, but for the flaws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from safe2real import Kernel, Learner, MarkovPolicy, Trajectory, explore, load_learner
from safe2real.campaign import Campaign, Deployment, carry_over
from safe2real.campaign.journal import MemoryJournal
from safe2real.errors import Halted, Stopped
from safe2real.evidence.tied_rows import TiedEvidence
from safe2real.exploration import ExploreEvent, PolicyTrial, TrialTerms
from safe2real.exploration.policy_trial import CANDIDATE
from safe2real.model.policy import carried_out
from safe2real.model.validation import Floats
from safe2real.systems.estimate import Counting, estimate_from_log
from safe2real.systems.finite import SystemDescription
from trial.flaws import Flaw
from trial.judge import Judge
from trial.outcome import Outcome
from trial.parts import Part
from trial.statements import Kind, about_floors
from trial.systems import Case
from trial.world import SeededEnv, World

Log = list[tuple[MarkovPolicy, Trajectory]]
Route = Callable[[Case, Judge, np.random.Generator, Flaw], float]
_LOOKS = 3  # at the state of a learner, in a stretch of exploration
_TIMES = 12  # that an episode counts, where it is counted several times by mistake
_LONGER, _LUCKY = 4, 3  # times as many episodes with some flaws, which take their time to show; the second in trials
_FILES = 0.03  # how likely a learner is saved and loaded after an episode, and a campaign opened anew after a tell


def travel(case: Case, part: Part, flaw: Flaw = Flaw.NOTHING) -> Outcome:
    """Run a case along the route of a part, and compare what is said with what is true."""
    rng = np.random.default_rng([case.settings.coin_seed, case.number])
    judge = Judge(case, rng)
    return judge.outcome(part, flaw, _ROUTES[part](case, judge, rng, flaw))


def _learner(case: Case) -> Learner:
    return Learner(case.problem, case.method, trust_margin=True)


def _utility(case: Case) -> Floats:
    """What an episode is called good or bad by, [1 or H, S, A]: the first constraint, or the state's number."""
    if case.task.num_constraints:
        return np.asarray(case.task.utilities[0])
    number = np.arange(case.task.num_states) / max(1, case.task.num_states - 1)
    return np.broadcast_to(number[:, None], (1, case.task.num_states, case.task.num_actions))


def _reloaded(learner: Learner) -> Learner:
    with TemporaryDirectory() as folder:
        return load_learner(learner.save(Path(folder) / "learner"))


def _explored(
    learner: Learner,
    judge: Judge,
    world: World,
    rng: np.random.Generator,
    rounds: int,
    *,
    files: float = _FILES,
) -> Learner:
    """The learner after as many rounds; it may be another object, read from a file."""
    for done in range(rounds):
        proposal = learner.propose()
        if proposal.mixture is None:
            break
        judge.deployed(proposal.mixture, proposal.certificate, proposal.exploration_weight)
        learner.observe(world.run(proposal.draw()))
        if done % max(1, rounds // _LOOKS) == 0:
            judge.look(learner)
        if rng.random() < files:
            learner = _reloaded(learner)
    judge.look(learner)
    return learner


def _asked(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    unseen = flaw is Flaw.SMALL_SUPPORT
    if unseen:
        case = replace(case, ties=None, support=_too_small(case))
    learner, world = _learner(case), World(judge.truth, rng)
    if unseen:
        learner.evidence._check_support = lambda *_: None  # type: ignore[method-assign]
    untested = flaw is Flaw.FALSE_TIES
    if untested and isinstance(learner.evidence, TiedEvidence):
        learner.evidence.test.look = lambda *_: None  # type: ignore[method-assign]
    for _ in range(2):
        files = 0.0 if unseen or untested else _FILES  # a file would switch everything on again
        rounds = case.rounds // 2 * (_LONGER if untested else 1)
        learner = _explored(learner, judge, world, rng, rounds, files=files)
        judge.ask_plans(learner)
    return learner.failure


def _too_small(case: Case) -> Kernel:
    """The support without the successor that is worst for the first constraint, in every row that has several."""
    real = case.real.to_dense().copy()
    worth = _utility(case).mean(axis=(0, 2))
    for row in real.reshape(-1, real.shape[-1]):
        possible = np.flatnonzero(row)
        if possible.size > 1:
            row[possible[worth[possible].argmin()]] = 0.0
    return Kernel.from_dense(real / real.sum(axis=-1, keepdims=True))


# Campaigns


class _Fleet:
    """Workers of a campaign, who run what they are handed and tell it later, in any order, or never."""

    def __init__(self, campaign: Campaign, world: World, rng: np.random.Generator, judge: Judge | None) -> None:
        self.campaign, self.world, self.rng, self.judge = campaign, world, rng, judge
        self.out: dict[str, tuple[Deployment, Trajectory]] = {}  # run and not told
        self.late: list[tuple[str, Trajectory]] = []  # abandoned before anything was seen, and told after all
        self.log: Log = []  # told

    @property
    def learner(self) -> Learner:
        return self.campaign._record.catch_up().learner

    def work(self, episodes: int, *, selective: bool = False) -> None:
        """Run some episodes; `selective` workers abandon the bad ones."""
        while episodes > 0:
            try:
                handed = self.campaign.ask_batch(int(self.rng.integers(1, 4)), worker=f"w{self.rng.integers(4)}")
            except (Stopped, Halted):
                break
            for one in handed:
                if one.id not in self.out:
                    episodes -= 1
                    if self.judge is not None:
                        self.judge.deployed(one.mixture, one.certificate, one.exploration_weight)
                    self.out[one.id] = one, self.world.run(one.policy)
            while self.out and self.rng.random() < 0.75:
                self._finish(str(self.rng.choice(list(self.out))), selective=selective)
            if self.late and self.rng.random() < 0.3:
                self.campaign.tell(*self.late.pop())
            if self.rng.random() < _FILES:
                self.campaign = Campaign.open(self.campaign.journal)
        for id in list(self.out):
            self._finish(id, selective=selective)

    def _finish(self, id: str, *, selective: bool) -> None:
        deployment, episode = self.out.pop(id)
        if self.world.is_bad(episode) if selective else self.rng.random() < 0.1:
            self.campaign.abandon(id, "not begun")
            if not selective and self.rng.random() < 0.3:
                self.late.append((id, episode))
            return
        self.campaign.tell(id, episode)
        self.log.append((deployment.policy, episode))


def _begun(case: Case) -> Campaign:
    return Campaign.create(MemoryJournal(), case.problem, method=case.method, trust_margin=True)


def _campaign(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    selective = flaw is Flaw.BY_OUTCOME
    fleet = _Fleet(_begun(case), World(judge.truth, rng), rng, judge)
    for _ in range(2):
        fleet.work(case.rounds // 2 * (_LONGER if selective else 1), selective=selective)
        judge.look(fleet.learner)
        judge.ask_plans(fleet.learner, fleet.campaign.plan)
    return fleet.learner.failure


def _carried(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    """The first campaign may be refuted, as its gap is often too large; nothing that it says is judged."""
    world = World(judge.truth, rng)
    gap = float(rng.choice([case.settings.mismatch_gap, 1.0]))
    first = _Fleet(_begun(replace(case, settings=replace(case.settings, mismatch_gap=gap))), world, rng, None)
    first.work(case.rounds // 2)
    second = _Fleet(_begun(case), world, rng, judge)
    carry_over(second.campaign, first.campaign)
    if flaw is Flaw.CARRIED_TWICE:
        logs = [
            (policy, [_named(episode, f"{again} {i}") for again in range(1, _TIMES)])
            for i, (policy, episode) in enumerate(first.log)
        ]
        second.campaign.import_logs("again", logs, overlap="count")
    judge.look(second.learner)
    second.work(case.rounds // 3)
    first.work(case.rounds // 4)
    carry_over(second.campaign, first.campaign)
    second.work(case.rounds // 4)
    judge.look(second.learner)
    judge.ask_plans(second.learner, second.campaign.plan)
    return second.learner.failure


def _named(episode: Trajectory, id: str) -> dict[str, object]:
    return {"states": episode.states.tolist(), "actions": episode.actions.tolist(), "id": id}


# Episodes from elsewhere


def _logs(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    """A user runs each policy until its first bad episode, so that how long a log is depends on what is in it."""
    world, learner, utility = World(judge.truth, rng), _learner(case), _utility(case)
    by_policy = flaw is Flaw.POLICY_BY_POLICY
    usual = float(np.quantile([world.worth(world.run(case.baseline), utility) for _ in range(20)], 0.6))
    logs = list[tuple[MarkovPolicy, list[Trajectory]]]()
    ended = True
    for _ in range(2 * case.rounds * (_LONGER if by_policy else 1)):
        if ended:
            logs.append((_any_policy(case, rng), []))
        policy, own = logs[-1]
        own.append(world.run(policy))
        ended = world.worth(own[-1], utility) < usual
    if by_policy:
        for done, (policy, own) in enumerate(sorted(logs, key=lambda log: -len(log[1]))):
            learner.import_episodes(policy, own, overlap="count")
            if done % 4 == 0:
                judge.look(learner)
    else:
        learner.import_logs([logs[i] for i in rng.permutation(len(logs))], overlap="count")
    judge.look(learner)
    judge.ask_plans(learner)
    learner = _explored(learner, judge, world, rng, case.rounds // 2)
    judge.ask_plans(learner)
    return learner.failure


def _any_policy(case: Case, rng: np.random.Generator) -> MarkovPolicy:
    """One that is near the baseline, and unlike all others."""
    share, table = rng.uniform(0.0, 0.3), carried_out(case.baseline, case.task).probabilities
    return MarkovPolicy.stochastic((1.0 - share) * table + share / table.shape[-1])


def _seeds(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    """Learners that began with one seed, each with the episodes of all before it: docs/which-are-you.md."""
    env, episodes, each = SeededEnv(case), Log(), max(8, case.rounds // 3)
    repeats = flaw is Flaw.SAME_SEEDS
    for _ in range(2 if repeats else int(rng.integers(1, 4))):
        kept = Log()
        explore(_learner(case) if repeats else _importing(case, episodes), env, max_rounds=each, keep=kept)
        episodes += [(policy, replace(one, seed=None)) for policy, one in kept] if repeats else kept
    learner = _importing(case, episodes * (_TIMES if repeats else 1))
    judge.look(learner)

    def note(event: ExploreEvent) -> None:
        proposal = event.proposal
        if proposal.mixture is not None and not event.over:
            judge.deployed(proposal.mixture, proposal.certificate, proposal.exploration_weight)

    for _ in range(2):
        explore(learner, env, max_rounds=each, progress=note)
        judge.look(learner)
        learner = _reloaded(learner)
    judge.ask_plans(learner)
    return learner.failure


def _importing(case: Case, episodes: Log) -> Learner:
    learner = _learner(case)
    for policy, episode in episodes:
        learner.import_episodes(policy, [episode], partial=True, overlap="count")
    return learner


def _fitted(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    """Half of a log makes the simulator, with no gap stated, and the other half is imported."""
    world, task = World(judge.truth, rng), case.task
    log = [world.run(case.baseline) for _ in range(2 * case.rounds)]
    fit, counted = (log, log) if flaw is Flaw.ONE_LOG else (log[::2], log[1::2])
    paths = [(one.states.tolist(), one.actions.tolist()) for one in fit]
    estimated = estimate_from_log(
        paths,
        task.steps,
        SystemDescription(start=0),
        counting=Counting(unvisited="stay"),
        num_states=task.num_states,
        num_actions=task.num_actions,
    )
    settings = replace(case.settings, calibrated_gap=0.0, mismatch_gap=0.0)
    case = replace(case, task=task.with_kernel(estimated.model.kernel), settings=settings, within=None, support=None)
    learner = _learner(case)
    learner.import_episodes(case.baseline, counted, overlap="count")  # on so few states others look alike
    judge.look(learner)
    judge.ask_plans(learner)
    learner = _explored(learner, judge, world, rng, case.rounds // 2)
    judge.ask_plans(learner)
    return learner.failure


# Trials


def _policy(case: Case, judge: Judge, rng: np.random.Generator, flaw: Flaw) -> float:
    """Two trials by numbers alone that share delta and the seed; episodes are lost, and the program ends, by chance."""
    world, task = World(judge.truth, rng), case.task
    threshold, margin = float(task.thresholds[0]), float(np.ravel(case.settings.margin)[0])
    for number in (1, 2):
        candidate, reward = _far_policy(case, rng), rng.random((task.num_states, task.num_actions))
        means = [float(judge.truth.constraint_values(one)[0]) for one in (candidate, case.baseline)]
        worth = judge.truth.earned(candidate, reward)
        paid = np.broadcast_to(reward, task.shape).copy()
        paid[task.steps :] = 0.0
        terms = TrialTerms(
            threshold=threshold, margin=margin, high=float(task.horizon), delta=case.settings.delta, number=number,
            rewards={"reward": (0.0, float(task.horizon))}, seed=case.settings.coin_seed,
        )  # fmt: skip
        trial = PolicyTrial(terms)
        for _ in range(case.rounds * (_LUCKY if flaw is Flaw.LUCKY_POLICY else 1)):
            if trial.halted:
                judge.halted = True
                judge.found.add(Kind.HALTED)
                break
            turn = trial.ask()
            mixed = turn.share * means[0] + (1.0 - turn.share) * means[1]
            judge.mean_of(np.array([mixed]), turn.certificate, turn.share)
            episode = world.run(candidate if turn.policy == CANDIDATE else case.baseline)
            if flaw is Flaw.LUCKY_POLICY and turn.policy == CANDIDATE:
                others = [episode, *(world.run(candidate) for _ in range(4))]
                episode = max(others, key=lambda one: world.worth(one, task.utilities[0]))
            lost = rng.random()
            if lost < _FILES:
                trial = _interrupted(trial)
            elif lost < 2.0 * _FILES:
                trial.tell(None)
            else:
                trial.tell(world.worth(episode, task.utilities[0]), {"reward": world.worth(episode, paid)})
            judge.found.update(about_floors(trial.floors, {"constraint": means[0], "reward": worth}))
    return case.settings.delta


def _interrupted(trial: PolicyTrial) -> PolicyTrial:
    """The trial as it is read from its file while an episode is out, which counts for the worst."""
    with TemporaryDirectory() as folder:
        trial.save(Path(folder) / "trial.json")
        return PolicyTrial.load(Path(folder) / "trial.json", keep=False)


def _far_policy(case: Case, rng: np.random.Generator) -> MarkovPolicy:
    task = case.task
    return MarkovPolicy.stochastic(rng.dirichlet(np.full(task.num_actions, 0.5), size=(task.horizon, task.num_states)))


_ROUTES: dict[Part, Route] = {
    Part.ASKED: _asked,
    Part.CAMPAIGN: _campaign,
    Part.CARRIED: _carried,
    Part.LOGS: _logs,
    Part.SEEDS: _seeds,
    Part.FITTED: _fitted,
    Part.POLICY: _policy,
}
