//! The home: tracks the caches that may hold each line, and serves one request for a line at a
//! time. Shared copies, however, are granted to all caches that request one, without waiting for
//! the arrival of the previous grant.

use super::directory::{Directory, Found};
use super::{Counts, Kind, Message};
use std::collections::{BTreeMap, VecDeque};

/// A request being served, or a line being recalled.
#[derive(Clone, Copy, Debug)]
struct Service {
    /// The requesting cache, whether it is to own the line, and whether it needs the data.
    grant: Option<(usize, bool, bool)>,
    /// Snoops that have not been answered yet.
    awaited: u32,
    /// Grants that have not arrived yet.
    granted: u32,
}

/// The home's half of the fabric.
#[derive(Debug)]
pub(crate) struct Home {
    directory: Directory,
    hosts: usize,
    serving: BTreeMap<u64, Service>,
    queues: BTreeMap<u64, VecDeque<(usize, Kind)>>,
    /// Lines whose requests wait for room in the directory.
    stalled: VecDeque<u64>,
    outbox: VecDeque<(usize, Message)>,
    counts: Counts,
}

impl Home {
    pub(crate) fn new(entries: usize, ways: usize, hosts: usize) -> Home {
        Home {
            directory: Directory::new(entries, ways, hosts),
            hosts,
            serving: BTreeMap::new(),
            queues: BTreeMap::new(),
            stalled: VecDeque::new(),
            outbox: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Handles a cache's request for a line.
    pub(crate) fn handle_request(&mut self, from: usize, message: Message) {
        let queue = self.queues.entry(message.line).or_default();
        queue.push_back((from, message.kind));
        if queue.len() == 1 {
            self.serve(message.line);
            self.share(message.line);
        }
    }

    /// Handles the response to a snoop, after its data, if any, was placed.
    pub(crate) fn handle_answer(&mut self, from: usize, line: u64, held: bool) {
        let Some(service) = self.serving.get_mut(&line) else { return };
        service.awaited -= 1;
        let (service, keeps) = (*service, matches!(service.grant, Some((_, false, _))));
        if let Some(entry) = self.directory.get(line) {
            entry.disown(from);
            if !(keeps && held) {
                entry.remove(from);
            }
        }
        if service.awaited == 0 {
            self.conclude(line, service);
        }
    }

    /// True if a returned line still belongs to its sender; otherwise a snoop has already fetched
    /// it.
    pub(crate) fn wants(&mut self, from: usize, line: u64) -> bool {
        self.directory.get(line).is_some_and(|entry| entry.owner == Some(from))
    }

    /// Handles a returned line, after its data was placed or found unnecessary.
    pub(crate) fn handle_returned(&mut self, from: usize, line: u64) {
        if let Some(entry) = self.directory.get(line)
            && entry.owner == Some(from)
        {
            entry.remove(from);
            if entry.holders().is_empty() && !self.serving.contains_key(&line) {
                self.directory.free(line);
            }
        }
        self.outbox.push_back((from, Message { kind: Kind::Returned, line }));
        self.serve_stalled();
    }

    /// Handles the arrival of a grant, after which the next request for the line can be served.
    pub(crate) fn handle_arrived(&mut self, line: u64) {
        let Some(service) = self.serving.get_mut(&line) else { return };
        service.granted -= 1;
        if service.granted == 0 {
            self.serving.remove(&line);
            self.serve(line);
            self.serve_stalled();
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<(usize, Message)> {
        self.outbox.pop_front()
    }

    pub(crate) fn counts(&self) -> Counts {
        let entries_most = self.directory.in_use_most;
        let directory_bytes = self.directory.bytes(self.hosts);
        Counts { entries_most, directory_bytes, ..self.counts }
    }

    fn serve(&mut self, line: u64) {
        if self.serving.contains_key(&line) {
            return;
        }
        let Some(&(from, kind)) = self.queues.get(&line).and_then(VecDeque::front) else { return };
        let serving = &self.serving;
        match self.directory.find(line, |other| serving.contains_key(&other)) {
            Found::Entry => self.begin(line, from, kind),
            Found::Evict(other) => {
                self.stalled.push_back(line);
                self.call_back(other);
            }
            Found::Nothing => self.stalled.push_back(line),
        }
    }

    /// Grants copies to all caches whose requests for one are next, if copies are being granted.
    fn share(&mut self, line: u64) {
        let shares = |service: &&mut Service| {
            service.granted > 0 && matches!(service.grant, Some((_, false, _)))
        };
        let Some(service) = self.serving.get_mut(&line).filter(shares) else { return };
        let Some(queue) = self.queues.get_mut(&line) else { return };
        while let Some(&(from, Kind::GetShared)) = queue.front() {
            queue.pop_front();
            service.granted += 1;
            if let Some(entry) = self.directory.get(line) {
                entry.add(from);
            }
            let kind = Kind::Grant { owned: false, data: true };
            self.outbox.push_back((from, Message { kind, line }));
        }
        if queue.is_empty() {
            self.queues.remove(&line);
        }
    }

    fn begin(&mut self, line: u64, from: usize, kind: Kind) {
        if let Some(queue) = self.queues.get_mut(&line) {
            queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&line);
            }
        }
        let Some(entry) = self.directory.get(line) else { return };
        let owner = entry.owner;
        let (owned, data) = match kind {
            Kind::GetOwned { whole } => (true, !whole),
            _ => (false, true),
        };
        let snooped: Vec<usize> = match owned {
            true => entry.holders().into_iter().filter(|&host| host != from).collect(),
            false => owner.into_iter().filter(|&host| host != from).collect(),
        };
        let service = Service { grant: Some((from, owned, data)), awaited: 0, granted: 0 };
        self.snoop(line, service, &snooped, !owned);
    }

    /// Recalls a line from all caches that hold it, so that its entry becomes free.
    fn call_back(&mut self, line: u64) {
        self.counts.back_invalidations += 1;
        let holders = self.directory.get(line).map_or(Vec::new(), |entry| entry.holders());
        let service = Service { grant: None, awaited: 0, granted: 0 };
        self.snoop(line, service, &holders, false);
    }

    fn snoop(&mut self, line: u64, service: Service, hosts: &[usize], keep: bool) {
        let service = Service { awaited: hosts.len() as u32, ..service };
        self.serving.insert(line, service);
        self.counts.snoops += hosts.len() as u64;
        let message = Message { kind: Kind::Snoop { keep }, line };
        self.outbox.extend(hosts.iter().map(|&host| (host, message)));
        if hosts.is_empty() {
            self.conclude(line, service);
        }
    }

    fn conclude(&mut self, line: u64, service: Service) {
        let Some((to, owned, data)) = service.grant else {
            self.directory.free(line);
            self.serving.remove(&line);
            self.serve_stalled();
            return self.serve(line);
        };
        if let Some(entry) = self.directory.get(line) {
            if owned {
                entry.clear();
                entry.owner = Some(to);
            }
            entry.add(to);
        }
        if let Some(service) = self.serving.get_mut(&line) {
            service.granted = 1;
        }
        self.outbox.push_back((to, Message { kind: Kind::Grant { owned, data }, line }));
        self.share(line);
    }

    fn serve_stalled(&mut self) {
        for line in std::mem::take(&mut self.stalled) {
            self.serve(line);
        }
    }
}
