//! A host of the coherent fabric: a cache, or the home of the memory.

use super::{
    Done, EXPOSED, Effect, EngineCounters, LOCAL, Outgoing, Packet, Placing, Post, ProtocolAdapter,
    Role, Token,
};
use crate::coherent::{Agent, Home, Kind, Message, Pending};
use crate::config::{Config, Verb};
use crate::error::ModelError;
use fairway_ub::wire::Ecn;
use fairway_ub::{LocalRange, SegmentId};

/// Host 1 is the home; it is the target in the other stacks.
pub(crate) const HOME: usize = 1;

pub(crate) struct CoherentSide {
    agent: Agent,
    home: Option<Home>,
    /// Offset of the copies of the home's memory.
    shadow: u64,
    header_bytes: u32,
    sent: u64,
}

impl CoherentSide {
    pub(crate) fn all(config: &Config) -> Vec<CoherentSide> {
        let constants = &config.constants;
        let hosts = config.hosts as usize;
        let [set, local, ..] = super::memory_bytes(config);
        let (entries, ways) = (constants.directory_entries, constants.directory_ways);
        (0..hosts)
            .map(|host| CoherentSide {
                agent: Agent::default(),
                home: (host == HOME).then(|| Home::new(entries as usize, ways as usize, hosts)),
                shadow: (local - set) as u64,
                header_bytes: constants.coherent_header_bytes as u32,
                sent: 0,
            })
            .collect()
    }

    /// Returns the range of a line, in the home's memory or in a copy of it.
    fn range(&self, line: u64) -> LocalRange {
        let (segment, offset) = match self.home {
            Some(_) => (EXPOSED, line * 64),
            None => (LOCAL, self.shadow + line * 64),
        };
        LocalRange { segment: SegmentId::new(segment as u32), offset, length: 64 }
    }

    /// Places received data, if there is any, in memory or in the caches.
    fn place(&self, line: u64, payload: Vec<u8>, pending: Pending) -> Placing {
        let has_data = !payload.is_empty();
        let ranges = if has_data { vec![self.range(line)] } else { Vec::new() };
        let effect = Effect::Bytes { ranges, bytes: payload };
        Placing { effect, token: Token::Coherent(pending) }
    }
}

impl ProtocolAdapter for CoherentSide {
    fn post(&mut self, _now: u64, post: &Post) -> Result<bool, ModelError> {
        let line = post.remote / 64;
        let kind = match (post.returns, post.verb) {
            (true, _) => Kind::Return,
            (false, Verb::Load | Verb::Read) => Kind::GetShared,
            (false, _) => Kind::GetOwned { whole: post.whole },
        };
        self.agent.request(post.id, Message { kind, line });
        Ok(true)
    }

    fn transmit(&mut self, _now: u64) -> Option<Outgoing> {
        let next = match &mut self.home {
            Some(home) => home.poll_transmit(),
            None => self.agent.poll_transmit().map(|message| (HOME, message)),
        };
        let (to, message) = next?;
        self.sent += 1;
        let role = match message.kind {
            Kind::GetShared | Kind::GetOwned { .. } | Kind::Return => Role::Request,
            Kind::Grant { .. } => Role::Response,
            _ => Role::Control,
        };
        let gather = if message.has_data() { vec![self.range(message.line)] } else { Vec::new() };
        let packet = Packet::Coherent(message);
        Some(Outgoing { to, packet, role, gather, header_bytes: self.header_bytes, stream: None })
    }

    fn receive(
        &mut self,
        _now: u64,
        from: usize,
        packet: &Packet,
        payload: Vec<u8>,
        _ecn: Ecn,
    ) -> Option<Placing> {
        let Packet::Coherent(message) = *packet else { return None };
        let line = message.line;
        if let Some(home) = &mut self.home {
            match message.kind {
                Kind::Answer { held, data } => {
                    if data {
                        let pending = Pending::Answered { from, line, held };
                        return Some(self.place(line, payload, pending));
                    }
                    home.handle_answer(from, line, held);
                }
                Kind::Return if home.wants(from, line) => {
                    return Some(self.place(line, payload, Pending::Returned { from, line }));
                }
                Kind::Return => home.handle_returned(from, line),
                Kind::Arrived => home.handle_arrived(line),
                _ => home.handle_request(from, message),
            }
            return None;
        }
        match message.kind {
            Kind::Snoop { keep } => Some(Placing {
                effect: Effect::Snoop { line, keep },
                token: Token::Coherent(Pending::Snooped { line }),
            }),
            Kind::Grant { .. } => Some(self.place(line, payload, Pending::Granted { line })),
            _ => {
                self.agent.handle_returned(line);
                None
            }
        }
    }

    fn execution(&mut self) -> Option<Placing> {
        None
    }

    fn placed(&mut self, _now: u64, token: &Token, old: u64) {
        let Token::Coherent(pending) = *token else { return };
        match (pending, &mut self.home) {
            (Pending::Answered { from, line, held }, Some(home)) => {
                home.handle_answer(from, line, held);
            }
            (Pending::Returned { from, line }, Some(home)) => home.handle_returned(from, line),
            (Pending::Granted { line }, _) => self.agent.handle_granted(line),
            (Pending::Snooped { line }, _) => {
                self.agent.handle_snooped(line, old & 1 != 0, old & 2 != 0);
            }
            (pending, None) => unreachable!("{pending:?} at a cache"),
        }
    }

    fn completion(&mut self) -> Option<Done> {
        let id = self.agent.poll_done()?;
        Some(Done { id, failure: None, value: 0, receive: false, endpoint: 0 })
    }

    fn repost(&mut self, _receive: u64) {}

    fn timeout(&self) -> Option<u64> {
        None
    }

    fn handle_timeout(&mut self, _now: u64) {}

    fn counters(&self) -> EngineCounters {
        EngineCounters { sent: self.sent, ..EngineCounters::default() }
    }

    fn contexts(&self, _post: &Post) -> (u32, u32) {
        (0, 0)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let Some(home) = &self.home else { return Vec::new() };
        let counts = home.counts();
        vec![
            ("snoops", counts.snoops as f64),
            ("back_invalidations", counts.back_invalidations as f64),
            ("directory_entries_most", counts.entries_most as f64),
            ("directory_bytes", counts.directory_bytes as f64),
        ]
    }
}
