//! Logs of NCCL and RCCL: `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL`.
//!
//! A call is a line such as
//!
//! ```text
//! host:10:10 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 256 datatype 7
//!   op 0 root 0 comm 0x5 [nranks=2] stream 0x9
//! ```
//!
//! (in one line), and the beginning of a communicator is one with `comm 0x5 rank 0 nranks 2 ...
//! commId 0x77`. A process and its device are a rank. Its number is that in the largest
//! communicator, if the log names those (subsystem INIT), else RCCL's `globalrank`, else the order
//! of hosts and devices. NCCL before 2.17 has no `commId`; then communicators have all ranks. A
//! rank executes the calls of one stream one after the other, and those of different streams beside
//! each other. Sends and receives of one stream with the same `opCount` are of one group and go on
//! together. Times are not in the log, so nothing computes in between.

mod calls;
mod line;

use super::error::{ImportError, Place, Wrong};
use super::graph::Graph;
use super::{Input, RANKS_MAX};
use crate::traffic::Trace;
use crate::traffic::trace::MEMBERS_MAX;
use line::{Begun, Call, Line, line};
use std::collections::{BTreeMap, BTreeSet};

/// The text by which a line of NCCL is known.
pub(super) const MARK: &str = "NCCL INFO ";

/// A process and its device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    /// Order of the host's appearance, and its name.
    host: (usize, String),
    device: u32,
    pid: String,
}

/// What makes a communicator of one process the same as that of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// The log names it.
    Named(u64),
    /// It has all ranks, and is one of several that have: they count in the order of their first
    /// use by each process.
    All(usize),
}

/// A communicator.
#[derive(Clone, Debug, Default)]
struct Communicator {
    nranks: u32,
    /// Process of each rank that the log names.
    members: BTreeMap<u32, usize>,
}

/// A call of a rank, with its communicator.
#[derive(Clone, Debug)]
struct Placed {
    call: Call,
    place: Place,
    identity: Identity,
}

/// Everything that the files have, by process in order of appearance.
#[derive(Default)]
struct Log {
    processes: Vec<Process>,
    calls: Vec<Vec<(Call, Place, Option<Identity>)>>,
    communicators: BTreeMap<Identity, Communicator>,
    /// RCCL's numbers of processes, or those in a communicator of all that has no name.
    global: BTreeMap<usize, u32>,
    /// Size of the largest communicator without a name of each process, and its rank in it.
    unnamed: BTreeMap<usize, (u32, u32)>,
}

/// Reads the logs of all ranks, or that of one rank for all.
pub(super) fn read(inputs: &[Input<'_>]) -> Result<Trace, ImportError> {
    let mut log = gather(inputs)?;
    let first = inputs.first().map_or("", |input| input.name).to_owned();
    if log.calls.iter().all(Vec::is_empty) {
        let remedy = "no call of a collective operation is in the log: set NCCL_DEBUG=INFO and \
                      NCCL_DEBUG_SUBSYS=INIT,COLL";
        return Err(ImportError::Nothing { file: first, remedy });
    }
    log.stand_for_all()?;
    let order = log.order();
    let ranks = order.len();
    if !(2..=RANKS_MAX as usize).contains(&ranks) {
        let remedy = "give the logs of all ranks";
        return Err(ImportError::Ranks { file: first, ranks, remedy });
    }
    let calls = log.placed(&order)?;
    let mut graph = Graph::default();
    calls::add(&mut graph, &calls, &log.communicators)?;
    graph.trace(ranks as u32)
}

fn gather(inputs: &[Input<'_>]) -> Result<Log, ImportError> {
    let mut log = Log::default();
    let mut hosts: Vec<String> = Vec::new();
    let mut known: BTreeMap<(String, String, u32), usize> = BTreeMap::new();
    // The communicator that an address of a process is, at this line.
    let mut current: BTreeMap<(usize, String), Identity> = BTreeMap::new();
    for input in inputs {
        let text = String::from_utf8_lossy(input.bytes);
        for (at, text) in text.lines().enumerate() {
            let place = || Place::line(input.name, at + 1);
            let Some((process, line)) = line(text).map_err(|wrong| place().is(wrong))? else {
                continue;
            };
            let (host, pid, device) = process;
            let number = *known.entry((host.clone(), pid.clone(), device)).or_insert_with(|| {
                let at = hosts.iter().position(|known| *known == host).unwrap_or_else(|| {
                    hosts.push(host.clone());
                    hosts.len() - 1
                });
                log.processes.push(Process { host: (at, host), device, pid });
                log.calls.push(Vec::new());
                log.processes.len() - 1
            });
            match line {
                Line::Begun(Begun { comm, rank, nranks, id }) => {
                    let Some(id) = id else {
                        let largest = log.unnamed.entry(number).or_default();
                        *largest = (*largest).max((nranks, rank));
                        continue;
                    };
                    let identity = Identity::Named(id);
                    let entry = log.communicators.entry(identity.clone()).or_default();
                    entry.nranks = nranks;
                    entry.members.insert(rank, number);
                    current.insert((number, comm), identity);
                }
                Line::Call(call) => {
                    if let Some(rank) = call.global {
                        log.global.insert(number, rank);
                    }
                    let identity = current.get(&(number, call.comm.clone())).cloned();
                    log.calls[number].push((call, place(), identity));
                }
            }
        }
    }
    log.drop_idle();
    Ok(log)
}

impl Log {
    /// Leaves out processes that neither call anything nor are in a communicator, such as threads
    /// that print lines of their own.
    fn drop_idle(&mut self) {
        let members = || self.communicators.values().flat_map(|comm| comm.members.values());
        let is_used = |at: usize| !self.calls[at].is_empty() || members().any(|one| *one == at);
        let used: Vec<usize> = (0..self.processes.len()).filter(|at| is_used(*at)).collect();
        let place = |old: usize| used.binary_search(&old).ok();
        let communicators = self.communicators.iter().map(|(identity, comm)| {
            let members = comm.members.iter().filter_map(|(rank, old)| Some((*rank, place(*old)?)));
            (identity.clone(), Communicator { nranks: comm.nranks, members: members.collect() })
        });
        let communicators = communicators.collect();
        let all = self.unnamed.iter().filter(|(_, (nranks, _))| *nranks as usize == used.len());
        let all: BTreeMap<usize, u32> = all.map(|(old, (_, rank))| (*old, *rank)).collect();
        let ranks: BTreeSet<u32> = all.values().copied().collect();
        if self.global.is_empty() && ranks.len() == used.len() {
            self.global = all;
        }
        self.global =
            self.global.iter().filter_map(|(old, rank)| Some((place(*old)?, *rank))).collect();
        self.calls = used.iter().map(|old| std::mem::take(&mut self.calls[*old])).collect();
        self.processes = used.iter().map(|old| self.processes[*old].clone()).collect();
        self.communicators = communicators;
    }

    /// If the log is of one rank, and that only calls operations of all ranks, it stands for all.
    fn stand_for_all(&mut self) -> Result<(), ImportError> {
        let ([calls], [process]) = (self.calls.as_slice(), self.processes.as_slice()) else {
            return Ok(());
        };
        let Some((first, _, _)) = calls.first() else { return Ok(()) };
        let nranks = first.nranks;
        let other = calls.iter().find(|(call, ..)| call.nranks != nranks || call.kind.is_message());
        if let Some((call, place, _)) = other {
            let (comm, nranks) = (call.comm.clone(), call.nranks);
            return Err(place.clone().is(Wrong::Members { comm, nranks, known: 1 }));
        }
        if !(2..=RANKS_MAX).contains(&nranks) {
            return Ok(());
        }
        if calls.len().saturating_mul(nranks as usize) > MEMBERS_MAX {
            return Err(calls[0].1.clone().is(Wrong::TooLong));
        }
        // Which of them the log is of makes no difference.
        let unnamed = calls.iter().map(|(call, place, _)| (call.clone(), place.clone(), None));
        let unnamed: Vec<_> = unnamed.collect();
        let process = process.clone();
        self.calls = vec![unnamed; nranks as usize];
        let each = (0..nranks).map(|device| Process { device, ..process.clone() });
        self.processes = each.collect();
        self.communicators.clear();
        self.global.clear();
        Ok(())
    }

    /// The processes in the order of their ranks.
    fn order(&self) -> Vec<usize> {
        let count = self.processes.len();
        let complete = |comm: &&Communicator| comm.members.len() == count;
        if let Some(all) = self.communicators.values().find(complete) {
            return all.members.values().copied().collect();
        }
        let mut order: Vec<usize> = (0..count).collect();
        if self.global.len() == count {
            order.sort_by_key(|process| self.global[process]);
        } else {
            order.sort_by(|left, right| self.processes[*left].cmp(&self.processes[*right]));
        }
        order
    }

    /// The calls of each rank with their communicators, whose members are all known afterwards, as
    /// ranks of the trace.
    fn placed(&mut self, order: &[usize]) -> Result<Vec<Vec<Placed>>, ImportError> {
        let mut rank_of = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank, process)| rank_of[*process] = rank);
        for comm in self.communicators.values_mut() {
            comm.members.values_mut().for_each(|process| *process = rank_of[*process]);
        }
        let mut all = Vec::with_capacity(order.len());
        for process in order {
            let mut unnamed: Vec<String> = Vec::new();
            let mut placed = Vec::new();
            for (call, place, identity) in std::mem::take(&mut self.calls[*process]) {
                let identity = match identity {
                    Some(identity) => identity,
                    None => {
                        let known = unnamed.iter().position(|comm| *comm == call.comm);
                        let number = known.unwrap_or_else(|| {
                            unnamed.push(call.comm.clone());
                            unnamed.len() - 1
                        });
                        Identity::All(number)
                    }
                };
                self.check(&call, &place, &identity, order.len())?;
                placed.push(Placed { call, place, identity });
            }
            all.push(placed);
        }
        Ok(all)
    }

    /// Checks that the members of a call's communicator are known.
    fn check(
        &mut self,
        call: &Call,
        place: &Place,
        identity: &Identity,
        known: usize,
    ) -> Result<(), ImportError> {
        let unknown = || {
            let (comm, nranks) = (call.comm.clone(), call.nranks);
            place.clone().is(Wrong::Members { comm, nranks, known })
        };
        if let Identity::All(_) = identity {
            if call.nranks as usize != known {
                return Err(unknown());
            }
            // Without the numbers of ranks, a peer may be any process.
            if call.kind.is_message() && self.global.len() != known {
                let (peer, ranks) = (call.root, known);
                return Err(place.clone().is(Wrong::Peer { peer, ranks }));
            }
            self.communicators.entry(identity.clone()).or_insert_with(|| Communicator {
                nranks: call.nranks,
                members: (0..call.nranks).zip(0..known).collect(),
            });
        }
        let comm = self.communicators.get(identity).ok_or_else(unknown)?;
        if comm.members.len() != call.nranks as usize || comm.nranks != call.nranks {
            return Err(unknown());
        }
        if u64::from(call.nranks) <= call.root && (call.kind.has_root() || call.kind.is_message()) {
            let last = call.nranks - 1;
            return Err(place.clone().is(Wrong::Rank { rank: call.root, last }));
        }
        Ok(())
    }
}
