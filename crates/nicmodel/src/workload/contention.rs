//! Workloads whose actors contend: a lock and a barrier.

use super::{Answer, Next, Request, Workload, first_word};
use crate::config::{Config, Verb};
use crate::constants::ps;
use crate::error::Violation;
use crate::random::Random;

/// Addresses of the lock and of the protected counter, in the memory of the last host.
const LOCK: u64 = 0x3000;
const COUNTER: u64 = 0x3040;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Taking,
    Reading,
    Writing,
    Releasing,
}

/// Contenders for one lock. The owner reads a counter, writes the next value (without an atomic),
/// and releases the lock. So the counter equals the number of acquisitions only if they exclude
/// each other.
pub(crate) struct Lock {
    phases: Vec<Phase>,
    began: Vec<u64>,
    left: u64,
    holder: Option<usize>,
    random: Random,
    tries: u64,
    acquired: u64,
    waited_ps: u64,
    backoff: Vec<u32>,
}

impl Lock {
    pub(crate) fn new(config: &Config, actors: usize) -> Lock {
        Lock {
            phases: vec![Phase::Idle; actors],
            began: vec![0; actors],
            left: config.ops,
            holder: None,
            random: Random::new(config.seed ^ 0x10C4),
            tries: 0,
            acquired: 0,
            waited_ps: 0,
            backoff: vec![0; actors],
        }
    }

    fn take(&mut self, actor: usize) -> Next {
        self.phases[actor] = Phase::Taking;
        self.tries += 1;
        Next::Issue(Request::atomic(Verb::CompareSwap, LOCK, actor as u64 + 1, 0))
    }

    /// Retries a taken lock after a back-off that doubles up to 64 units of 500 ns.
    fn back_off(&mut self, actor: usize) -> Next {
        self.phases[actor] = Phase::Taking;
        let exponent = self.backoff[actor].min(6);
        self.backoff[actor] += 1;
        Next::Wait(1 + self.random.below(ps(500.0) << exponent))
    }
}

impl Workload for Lock {
    fn fill(&mut self, _host: usize, _memory: &mut [u8]) {}

    fn next(
        &mut self,
        actor: usize,
        now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        let word = |value: u64| value.to_le_bytes().to_vec();
        match (self.phases[actor], answer) {
            (Phase::Idle, _) => {
                if self.left == 0 {
                    return Ok(Next::Stop);
                }
                self.left -= 1;
                self.began[actor] = now;
                self.backoff[actor] = 0;
                Ok(self.take(actor))
            }
            (Phase::Taking, None) => Ok(self.take(actor)),
            (Phase::Taking, Some(answer)) if answer.value != 0 => Ok(self.back_off(actor)),
            (Phase::Taking, Some(_)) => {
                if let Some(other) = self.holder.replace(actor) {
                    return Err(Violation::SharedLock { actor, other });
                }
                self.acquired += 1;
                self.waited_ps += now - self.began[actor];
                self.phases[actor] = Phase::Reading;
                Ok(Next::Issue(Request::read(Verb::Read, COUNTER, 8)))
            }
            (Phase::Reading, Some(answer)) => {
                self.phases[actor] = Phase::Writing;
                let more = first_word(answer.bytes) + 1;
                Ok(Next::Issue(Request::write(Verb::Write, COUNTER, word(more))))
            }
            (Phase::Writing, Some(_)) => {
                self.phases[actor] = Phase::Releasing;
                self.holder = None;
                let own = actor as u64 + 1;
                Ok(Next::Issue(Request::atomic(Verb::CompareSwap, LOCK, 0, own)))
            }
            (Phase::Releasing, Some(answer)) => {
                if answer.value != actor as u64 + 1 {
                    return Err(Violation::WrongOwner { actor, owner: answer.value });
                }
                self.phases[actor] = Phase::Idle;
                self.next(actor, now, None)
            }
            (_, None) => Err(Violation::NoAnswer(actor)),
        }
    }

    fn check(&self, host: usize, memory: &[u8]) -> Result<(), Violation> {
        let counter = first_word(&memory[COUNTER as usize..COUNTER as usize + 8]);
        if host == 1 && counter != self.acquired {
            let (of, expected) = ("acquisitions", self.acquired);
            return Err(Violation::Count { of, expected, counted: counter });
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let acquired = self.acquired.max(1) as f64;
        vec![
            ("acquisitions", self.acquired as f64),
            ("tries_per_acquisition", self.tries as f64 / acquired),
            ("acquire_mean_ns", self.waited_ps as f64 / acquired / 1000.0),
        ]
    }
}

const ARRIVED: u64 = 0x2000;

/// Participants that increment a counter, and read it until all have entered.
pub(crate) struct Barrier {
    rounds: u64,
    /// By actor: its round, and whether it has incremented the counter.
    state: Vec<(u64, bool)>,
    /// Number of participants that have entered each round.
    entered: Vec<u64>,
    began: Vec<u64>,
    waited_ps: u64,
    passed: u64,
    polls: u64,
}

impl Barrier {
    pub(crate) fn new(config: &Config, actors: usize) -> Barrier {
        let rounds = (config.ops / actors as u64).max(1);
        Barrier {
            rounds,
            state: vec![(0, false); actors],
            entered: vec![0; rounds as usize],
            began: vec![0; actors],
            waited_ps: 0,
            passed: 0,
            polls: 0,
        }
    }
}

impl Workload for Barrier {
    fn fill(&mut self, _host: usize, _memory: &mut [u8]) {}

    fn next(
        &mut self,
        actor: usize,
        now: u64,
        answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        let all = self.state.len() as u64;
        let (round, counted) = self.state[actor];
        if counted && let Some(answer) = answer {
            let atomic = answer.request.verb.is_atomic();
            let count = if atomic { answer.value + 1 } else { first_word(answer.bytes) };
            if count < (round + 1) * all {
                self.polls += 1;
                return Ok(Next::Issue(Request::read(Verb::Read, ARRIVED, 8)));
            }
            if self.entered[round as usize] != all {
                return Err(Violation::EarlyExit { actor, round });
            }
            self.waited_ps += now - self.began[actor];
            self.passed += 1;
            self.state[actor] = (round + 1, false);
        }
        let (round, _) = self.state[actor];
        if round == self.rounds {
            return Ok(Next::Stop);
        }
        self.state[actor].1 = true;
        self.entered[round as usize] += 1;
        self.began[actor] = now;
        Ok(Next::Issue(Request::atomic(Verb::FetchAdd, ARRIVED, 1, 0)))
    }

    fn check(&self, host: usize, memory: &[u8]) -> Result<(), Violation> {
        let count = first_word(&memory[ARRIVED as usize..ARRIVED as usize + 8]);
        let expected = self.rounds * self.state.len() as u64;
        if host == 1 && count != expected {
            return Err(Violation::Count { of: "arrivals", expected, counted: count });
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let passed = self.passed.max(1) as f64;
        vec![
            ("barriers", self.rounds as f64),
            ("polls_per_barrier", self.polls as f64 / passed),
            ("barrier_mean_ns", self.waited_ps as f64 / passed / 1000.0),
        ]
    }
}
