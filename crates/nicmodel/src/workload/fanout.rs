//! Many senders and one service with many members: every message is handled once, whole, by one
//! member.

use super::{Answer, Budget, Next, Request, Workload, first_word, word};
use crate::config::{Config, Verb};
use crate::error::Violation;
use crate::report::mops;
use std::collections::BTreeMap;

pub(crate) struct Fanout {
    payload: usize,
    budget: Budget,
    number: u64,
    /// By number: the time at which an unhandled message was requested.
    began: BTreeMap<u64, u64>,
    spans: Vec<u64>,
    handled: Vec<u64>,
    /// Time of the first request.
    first: Option<u64>,
    /// Time at which the last message was handled.
    last: u64,
}

impl Fanout {
    pub(crate) fn new(config: &Config) -> Fanout {
        Fanout {
            payload: config.payload.max(8) as usize,
            budget: Budget::new(config.ops),
            number: 0,
            began: BTreeMap::new(),
            spans: Vec::new(),
            handled: vec![0; config.remote_jetties as usize],
            first: None,
            last: 0,
        }
    }

    fn content(number: u64, length: usize) -> Vec<u8> {
        let rest = (1..length.div_ceil(8) as u64).map(|at| word((number << 16) | (at * 8)));
        let words = std::iter::once(number).chain(rest);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.truncate(length);
        bytes
    }
}

impl Workload for Fanout {
    fn fill(&mut self, _host: usize, _memory: &mut [u8]) {}

    fn next(
        &mut self,
        _actor: usize,
        now: u64,
        _answer: Option<Answer<'_>>,
    ) -> Result<Next, Violation> {
        if !self.budget.take() {
            return Ok(Next::Stop);
        }
        self.number += 1;
        self.first.get_or_insert(now);
        self.began.insert(self.number, now);
        let content = Fanout::content(self.number, self.payload);
        Ok(Next::Issue(Request::write(Verb::Send, 0, content)))
    }

    fn handled(&mut self, now: u64, member: u32, bytes: &[u8]) -> Result<(), Violation> {
        let bytes = bytes.get(..self.payload).unwrap_or(bytes);
        let number = first_word(bytes);
        let Some(began) = self.began.remove(&number) else {
            return Err(Violation::UnexpectedMessage { member, message: number });
        };
        if bytes != Fanout::content(number, self.payload) {
            return Err(Violation::WrongMessage(number));
        }
        self.spans.push(now - began);
        self.handled[member as usize] += 1;
        self.last = now;
        Ok(())
    }

    fn check(&self, host: usize, _memory: &[u8]) -> Result<(), Violation> {
        let rest = self.began.len();
        let all = host != 1 || rest == 0;
        all.then_some(()).ok_or(Violation::Unhandled(rest))
    }

    fn is_over(&self) -> bool {
        self.began.is_empty()
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let mut spans = self.spans.clone();
        spans.sort_unstable();
        let count = spans.len().max(1);
        let mean = spans.iter().sum::<u64>() as f64 / count as f64 / 1000.0;
        let p99 = spans.get(count * 99 / 100).copied().unwrap_or(0) as f64 / 1000.0;
        let elapsed = self.last - self.first.unwrap_or(self.last);
        let most = self.handled.iter().copied().max().unwrap_or(0) as f64;
        let share = count as f64 / self.handled.len() as f64;
        vec![
            ("handled", spans.len() as f64),
            ("handled_mean_ns", mean),
            ("handled_p99_ns", p99),
            ("handled_mops", mops(self.spans.len() as u64, elapsed)),
            ("busiest_member_share", most / share),
        ]
    }
}
