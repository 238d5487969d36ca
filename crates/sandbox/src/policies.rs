//! Policies by name, where the name may be that of a file.
//!
//! The syntax is that of [`PolicySpec`], except that an item may name a module:
//! `cc=wasm:./mine.wasm`, `path=./mine.wasm` (a name that ends in `.wasm` needs no `wasm:`).
//! Parameters follow a further colon, `cc=./mine.wasm:gain=2:floor=64K`, and are parsed by the
//! module. A bare name, `cc=wasm:mine`, is searched as `mine.wasm` in the folders that
//! FAIRWAY_POLICIES lists. `compiled:` or `interpreted:` in place of `wasm:` also names the engine,
//! which is otherwise that of FAIRWAY_POLICY_ENGINE, or the interpreter. Without a label, a module
//! is used for all kinds that it supports. Items with the same file, parameters and engine share an
//! instance. File names with a comma or a colon are not possible.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use fairway_policy::{PathSpec, PolicyError, PolicySet, PolicySpec, Scheduler, SchedulerSpec};
use fairway_wire::Instant;

use crate::PoliciesError;
use crate::congestion::UserCongestion;
use crate::instance::Shared;
use crate::loss::UserLoss;
use crate::named::Named;
use crate::path::UserPath;
use crate::scheduler::UserScheduler;
use crate::slot::{Report, Role, Site, Slot, SwapError};

/// Source of the policies of new channels. Clones share their modules: a replacement applies to all
/// of them, and so do the counters.
#[derive(Clone, Default)]
pub struct Policies {
    spec: PolicySpec,
    slots: Vec<Arc<Slot>>,
}

/// An event of a module since the last call of [`Policies::reload`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The module's file has changed, and the new content decides from the next event on.
    Replaced(String),
    /// The module's file has changed to something unusable, and the old module stays.
    Kept(String, SwapError),
    /// An instance was taken out of use.
    Faulted(Report),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Replaced(item) => write!(f, "policy {item}: replaced by what the file holds now"),
            News::Kept(item, error) => {
                write!(f, "policy {item}: the new file is not used: {error}")
            }
            News::Faulted(report) => write!(f, "policy {report}"),
        }
    }
}

impl Policies {
    /// Builds the policies of a channel with packets of `mtu_bytes`.
    pub fn build(&self, mtu_bytes: u32) -> PolicySet {
        self.build_as(&self.spec, mtu_bytes)
    }

    /// Builds the policies of a channel to a peer on the same host, by `port_pairs` pairs of ports
    /// ([`PolicySpec::within_host`]).
    pub fn build_within_host(&self, port_pairs: u32, mtu_bytes: u32) -> PolicySet {
        self.build_as(&self.spec.within_host(port_pairs), mtu_bytes)
    }

    fn build_as(&self, spec: &PolicySpec, mtu_bytes: u32) -> PolicySet {
        let mut set = spec.build(mtu_bytes);
        for slot in self.slots.iter().filter(|slot| !slot.has(Role::Scheduler)) {
            let shared = Shared::start(Arc::clone(slot), Site { mtu_bytes, flows: 0 });
            for role in slot.roles() {
                let shared = shared.clone();
                match role {
                    Role::Congestion => {
                        set.congestion = Box::new(UserCongestion::new(shared, set.congestion));
                    }
                    Role::Path => set.path = Box::new(UserPath::new(shared, set.path)),
                    Role::Loss => set.loss = Box::new(UserLoss::new(shared, set.loss)),
                    Role::Scheduler => {}
                }
            }
        }
        set
    }

    /// Builds the scheduler of a NIC with this many flows; `None` for `greedy`, which is the
    /// behaviour of a NIC without a scheduler.
    pub fn scheduler_of_nic(&self, flows: u32) -> Option<Box<dyn Scheduler>> {
        let Some(slot) = self.slots.iter().find(|slot| slot.has(Role::Scheduler)) else {
            return self.spec.scheduler_of_nic(flows);
        };
        let shared = Shared::start(Arc::clone(slot), Site { mtu_bytes: 0, flows });
        Some(Box::new(UserScheduler::new(shared, flows)))
    }

    /// Returns the built-in policies; for a kind that is a module, its fallback.
    pub fn built_in(&self) -> &PolicySpec {
        &self.spec
    }

    /// True if any policy is a module.
    pub fn has_modules(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns a copy without history, with counters of its own.
    pub fn fresh(&self) -> Policies {
        let slots = self.slots.iter().map(|slot| Arc::new(slot.fresh())).collect();
        Policies { spec: self.spec, slots }
    }

    /// Returns a copy in which the module that `item` names (`cc=./other.wasm`) replaces the
    /// current one from `at` on, with the same parameters.
    ///
    /// # Errors
    /// If `item` is not a module, or cannot replace the current one.
    pub fn with_planned(&self, at: Instant, item: &str) -> Result<Policies, PoliciesError> {
        let Some(named) = Named::read(item) else {
            let error = PolicyError::UnknownName(item.to_owned());
            return Err(PoliciesError::BuiltIn(error));
        };
        let failed = |error| PoliciesError::Module(item.to_owned(), error);
        let module = named.module(&named.file()?).map_err(|e| failed(SwapError::Load(e)))?;
        let mut policies = self.fresh();
        let mut done: Vec<usize> = Vec::new();
        for role in named.roles(&module)? {
            let at_slot = policies.slots.iter().position(|slot| slot.has(role));
            let at_slot = at_slot.ok_or_else(|| failed(SwapError::NoModule(role)))?;
            // Kinds that share an instance change together.
            if !done.contains(&at_slot) {
                done.push(at_slot);
                let slot = policies.slots[at_slot].planned(at, module.clone()).map_err(failed)?;
                policies.slots[at_slot] = Arc::new(slot);
            }
        }
        Ok(policies)
    }

    /// Replaces the path choice by a built-in one.
    pub fn with_path(mut self, path: PathSpec) -> Policies {
        self.spec.path = path;
        self.drop_module(Role::Path);
        self
    }

    /// Replaces the scheduler by a built-in one.
    pub fn with_scheduler(mut self, scheduler: SchedulerSpec) -> Policies {
        self.spec.scheduler = scheduler;
        self.drop_module(Role::Scheduler);
        self
    }

    /// Uses no module for a kind any more. Other kinds that the same instance decides keep it.
    fn drop_module(&mut self, role: Role) {
        let keep = |slot: Arc<Slot>| match slot.without(role) {
            None => Some(slot),
            Some(rest) => rest.map(Arc::new),
        };
        self.slots = std::mem::take(&mut self.slots).into_iter().filter_map(keep).collect();
    }

    /// Replaces the module of a kind by the one in `bytes`, on every channel before its next event.
    ///
    /// # Errors
    /// If there is no module to replace, or if the new one does not start with the old one's
    /// parameters; nothing changes then.
    pub fn swap(&self, role: Role, bytes: &[u8]) -> Result<(), SwapError> {
        match self.slots.iter().find(|slot| slot.has(role)) {
            Some(slot) => slot.swap(bytes),
            None => Err(SwapError::NoModule(role)),
        }
    }

    /// Checks whether files have changed, and replaces the modules of those that have.
    pub fn reload(&self) -> Vec<News> {
        let mut news = Vec::new();
        for slot in &self.slots {
            match slot.reload() {
                None => {}
                Some(Ok(())) => news.push(News::Replaced(slot.item())),
                Some(Err(error)) => news.push(News::Kept(slot.item(), error)),
            }
        }
        news
    }

    pub(crate) fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    /// Returns the reports on the modules, in the order of the specification.
    pub fn reports(&self) -> Vec<Report> {
        self.slots.iter().map(|slot| slot.report()).collect()
    }
}

impl From<PolicySpec> for Policies {
    fn from(spec: PolicySpec) -> Self {
        Policies { spec, slots: Vec::new() }
    }
}

impl FromStr for Policies {
    type Err = PoliciesError;

    fn from_str(text: &str) -> Result<Self, PoliciesError> {
        let mut built_in = Vec::new();
        let mut slots: Vec<Slot> = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match Named::read(item) {
                None => {
                    Named::check_built_in(item)?;
                    built_in.push(item.to_owned());
                }
                Some(named) => {
                    for slot in named.open(item)? {
                        // The module's fallback. If the kind is given twice, so is the fallback,
                        // which makes parsing fail.
                        built_in.extend(slot.roles().iter().map(|role| default_of(*role)));
                        if !slots.iter_mut().any(|other| other.join(&slot)) {
                            slots.push(slot);
                        }
                    }
                }
            }
        }
        let spec = built_in.join(",").parse().map_err(PoliciesError::BuiltIn)?;
        Ok(Policies { spec, slots: slots.into_iter().map(Arc::new).collect() })
    }
}

/// Returns the default of a kind, as an item.
fn default_of(role: Role) -> String {
    let all = PolicySpec::default().to_string();
    let of_kind =
        |item: &&str| item.split_once('=').is_some_and(|(label, _)| label == role.label());
    all.split(',').find(of_kind).map(str::to_owned).unwrap_or_default()
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.spec.to_string();
        for (i, item) in all.split(',').enumerate() {
            let separator = if i == 0 { "" } else { "," };
            let label = item.split_once('=').map_or("", |(label, _)| label);
            let role = Role::ALL.into_iter().find(|role| role.label() == label);
            let slot = role.and_then(|role| {
                self.slots.iter().find(|slot| slot.has(role)).map(|slot| slot.item_of(role))
            });
            match slot {
                Some(own) => write!(f, "{separator}{own}")?,
                None => write!(f, "{separator}{item}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policies({self})")
    }
}

/// Two values are equal if their texts are.
impl PartialEq for Policies {
    fn eq(&self, other: &Policies) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Policies {}
