//! The module that decides one kind of policy, for all channels of a NIC or of a simulation.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fairway_wire::Instant;

use crate::abi::{Decision, Start, TEXT_BYTES};
use crate::guest::Guest;
use crate::hook::Hook;
use crate::module::{self, Module};
use crate::{Engine, Fault, LoadError, Reason, named};

/// Kinds of policy that a module can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Congestion control, `cc`.
    Congestion,
    /// Path choice, `path`.
    Path,
    /// Loss detection, `loss`.
    Loss,
    /// Scheduling, `sched`.
    Scheduler,
}

impl Role {
    /// All kinds.
    pub const ALL: [Role; 4] = [Role::Congestion, Role::Path, Role::Loss, Role::Scheduler];

    /// Label of the kind in specifications.
    pub const fn label(self) -> &'static str {
        match self {
            Role::Congestion => "cc",
            Role::Path => "path",
            Role::Loss => "loss",
            Role::Scheduler => "sched",
        }
    }

    /// The hooks that a module of this kind exports.
    pub(crate) const fn required(self) -> &'static [Hook] {
        match self {
            Role::Congestion => &[Hook::OnAck, Hook::OnLoss],
            Role::Path => &[Hook::ChoosePath],
            Role::Loss => &[Hook::IsLost],
            Role::Scheduler => &[Hook::Rates, Hook::FlowStarted, Hook::FlowEnded],
        }
    }

    /// True if each channel has a policy of this kind, and not each NIC.
    pub(crate) const fn is_of_channel(self) -> bool {
        !matches!(self, Role::Scheduler)
    }
}

/// What an instance decides for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// Packet length, if it decides for a channel.
    pub(crate) mtu_bytes: u32,
    /// Number of flows, if it decides for a NIC.
    pub(crate) flows: u32,
}

/// Why a module did not replace another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapError {
    /// There is no module of this kind to be replaced.
    NoModule(Role),
    /// The file is not a policy module.
    Load(LoadError),
    /// The module is of another kind.
    WrongRole(Role),
    /// The module did not start.
    Start(Fault),
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapError::NoModule(role) => {
                write!(f, "{} is no module, so none can replace it", role.label())
            }
            SwapError::Load(error) => error.fmt(f),
            SwapError::WrongRole(role) => write!(f, "it exports no hooks of {}", role.label()),
            SwapError::Start(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for SwapError {}

/// History of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The item of the specification, as `cc=wasm:./mine.wasm:gain=2`.
    pub item: String,
    /// What runs the current module.
    pub engine: Engine,
    /// Instances that have started: one per channel, and one more for each replacement.
    pub started: u64,
    /// Started instances that replaced another one.
    pub replaced: u64,
    /// Instances that were taken out of use; their channels use the built-in default since then.
    pub faults: u64,
    /// The earliest fault and its time. Of several faults at one time it is the least one, so that
    /// the result does not depend on their order.
    pub first_fault: Option<(Instant, Fault)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { item, engine, started, replaced, faults, .. } = self;
        let is_named = item.contains("=compiled:");
        let engine = if *engine == Engine::Compiled && !is_named { ", compiled" } else { "" };
        write!(f, "{item}{engine}: {started} started, {replaced} of them in place of another, ")?;
        match &self.first_fault {
            None => write!(f, "no fault"),
            Some((_, fault)) => write!(f, "{faults} fell back to the default: {fault}"),
        }
    }
}

/// An item of a specification, as the user gave it. A file that is given for several kinds is one
/// item.
#[derive(Clone)]
pub(crate) struct Item {
    pub(crate) roles: Vec<Role>,
    /// The engine, if the user named one.
    pub(crate) engine: Option<Engine>,
    pub(crate) name: String,
    pub(crate) parameters: String,
    pub(crate) file: PathBuf,
}

/// An item, its current module, and its history.
pub(crate) struct Slot {
    item: Item,
    current: Mutex<Module>,
    /// Number of replacements of the current module.
    version: AtomicU32,
    /// Planned replacements, by time.
    planned: Vec<(Instant, Module)>,
    seen: Mutex<Option<Stamp>>,
    mtu_bytes: AtomicU32,
    flows: AtomicU32,
    started: AtomicU64,
    replaced: AtomicU64,
    faults: AtomicU64,
    first_fault: Mutex<Option<(Instant, Fault)>>,
}

/// The version and the planned replacements of its slot that an instance has adopted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    version: u32,
    planned: usize,
}

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

/// For what a module is tried before it is used, if nothing uses it yet.
const USUAL: Site = Site { mtu_bytes: 4096, flows: 16 };

impl Slot {
    /// Makes the slot of an item whose file, as of `seen`, holds `module`.
    pub(crate) fn open(item: Item, module: Module, seen: Option<Stamp>) -> Result<Slot, SwapError> {
        try_out(&module, &item.roles, USUAL, &item.parameters)?;
        Ok(Slot::unused(item, module, seen))
    }

    /// Uses the same file for another kind, too, and with the same instance, if that is possible.
    /// Returns false if it is not.
    pub(crate) fn join(&mut self, other: &Slot) -> bool {
        let (own, new) = (&mut self.item, &other.item);
        let is_same =
            own.file == new.file && own.parameters == new.parameters && own.engine == new.engine;
        let of_channel = |item: &Item| item.roles.iter().all(|role| role.is_of_channel());
        let is_new = new.roles.iter().all(|role| !own.roles.contains(role));
        let joins = is_same && is_new && of_channel(own) && of_channel(new);
        if joins {
            own.roles.extend(&new.roles);
            own.roles.sort_unstable();
        }
        joins
    }

    /// Returns the slot without a kind: `Some(None)` if that was its only one, and `None` if it
    /// does not have that kind.
    pub(crate) fn without(&self, role: Role) -> Option<Option<Slot>> {
        if !self.has(role) {
            return None;
        }
        let mut slot = self.fresh();
        slot.item.roles.retain(|own| *own != role);
        Some(Some(slot).filter(|slot| !slot.item.roles.is_empty()))
    }

    /// Returns a copy with the same module and plan, but without history.
    pub(crate) fn fresh(&self) -> Slot {
        let (module, seen) = (lock(&self.current).clone(), *lock(&self.seen));
        Slot { planned: self.planned.clone(), ..Slot::unused(self.item.clone(), module, seen) }
    }

    /// Makes a slot without history.
    fn unused(item: Item, module: Module, seen: Option<Stamp>) -> Slot {
        Slot {
            item,
            current: Mutex::new(module),
            version: AtomicU32::new(0),
            planned: Vec::new(),
            seen: Mutex::new(seen),
            mtu_bytes: AtomicU32::new(USUAL.mtu_bytes),
            flows: AtomicU32::new(USUAL.flows),
            started: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            first_fault: Mutex::new(None),
        }
    }

    /// Returns a copy with another module from `at` on.
    pub(crate) fn planned(&self, at: Instant, module: Module) -> Result<Slot, SwapError> {
        try_out(&module, &self.item.roles, USUAL, &self.item.parameters)?;
        let mut slot = self.fresh();
        slot.planned.push((at, module));
        slot.planned.sort_by_key(|(at, _)| at.as_ps());
        Ok(slot)
    }

    pub(crate) fn roles(&self) -> &[Role] {
        &self.item.roles
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.item.roles.contains(&role)
    }

    /// Formats the item as in a specification.
    pub(crate) fn item(&self) -> String {
        let items: Vec<String> = self.item.roles.iter().map(|role| self.item_of(*role)).collect();
        items.join(",")
    }

    /// Formats the part of the item for one kind.
    pub(crate) fn item_of(&self, role: Role) -> String {
        let Item { engine, name, parameters, .. } = &self.item;
        let engine = engine.map_or("wasm", Engine::name);
        let separator = if parameters.is_empty() { "" } else { ":" };
        format!("{}={engine}:{name}{separator}{parameters}", role.label())
    }

    /// Starts an instance of the current module; `None`, and a counted fault, if it does not start.
    pub(crate) fn start(&self, site: Site) -> (Option<Guest>, Cursor) {
        self.mtu_bytes.store(site.mtu_bytes, Ordering::Relaxed);
        self.flows.store(site.flows, Ordering::Relaxed);
        let version = self.version.load(Ordering::Acquire);
        let module = lock(&self.current).clone();
        let guest = self.instance(&module, site, Decision::default(), Instant::ZERO);
        (guest, Cursor { version, planned: 0 })
    }

    /// Returns an instance of the new module if the module has been replaced since the cursor's
    /// version.
    pub(crate) fn replacement(
        &self,
        cursor: &mut Cursor,
        now: Instant,
        site: Site,
        inherited: &Decision,
    ) -> Option<Option<Guest>> {
        let version = self.version.load(Ordering::Acquire);
        let is_planned =
            self.planned.get(cursor.planned).is_some_and(|(at, _)| now.is_at_or_after(*at));
        if version == cursor.version && !is_planned {
            return None;
        }
        let mut module = lock(&self.current).clone();
        if version == cursor.version {
            let due = self.planned[cursor.planned..]
                .iter()
                .take_while(|(at, _)| now.is_at_or_after(*at))
                .count();
            cursor.planned += due;
            module = self.planned[cursor.planned - 1].1.clone();
        }
        cursor.version = version;
        let guest = self.instance(&module, site, *inherited, now);
        self.replaced.fetch_add(u64::from(guest.is_some()), Ordering::Relaxed);
        Some(guest)
    }

    fn instance(
        &self,
        module: &Module,
        site: Site,
        inherited: Decision,
        now: Instant,
    ) -> Option<Guest> {
        let Site { mtu_bytes, flows } = site;
        let start = Start { mtu_bytes, flows, parameters: &self.item.parameters, inherited };
        match Guest::start(module, &start) {
            Ok(guest) => {
                self.started.fetch_add(1, Ordering::Relaxed);
                Some(guest)
            }
            Err(fault) => {
                self.note(now, fault);
                None
            }
        }
    }

    /// Records that an instance was taken out of use.
    pub(crate) fn note(&self, now: Instant, fault: Fault) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_fault);
        let key = (now.as_ps(), fault);
        if first.as_ref().is_none_or(|(at, fault)| key < (at.as_ps(), fault.clone())) {
            *first = Some((now, key.1));
        }
    }

    /// Replaces the module; every instance changes before its next event.
    pub(crate) fn swap(&self, bytes: &[u8]) -> Result<(), SwapError> {
        let module = named::load(bytes, self.item.engine).map_err(SwapError::Load)?;
        let site = Site {
            mtu_bytes: self.mtu_bytes.load(Ordering::Relaxed),
            flows: self.flows.load(Ordering::Relaxed),
        };
        try_out(&module, &self.item.roles, site, &self.item.parameters)?;
        let mut current = lock(&self.current);
        *current = module;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// If the file has changed since the last check, replaces the module by the file's content.
    pub(crate) fn reload(&self) -> Option<Result<(), SwapError>> {
        let now = stamp(&self.item.file);
        let mut seen = lock(&self.seen);
        // A missing file is about to be written again.
        if now.is_none() || *seen == now {
            return None;
        }
        *seen = now;
        let bytes = module::read(&self.item.file).map_err(SwapError::Load);
        Some(bytes.and_then(|bytes| self.swap(&bytes)))
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            item: self.item(),
            engine: lock(&self.current).engine(),
            started: self.started.load(Ordering::Relaxed),
            replaced: self.replaced.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
            first_fault: lock(&self.first_fault).clone(),
        }
    }
}

/// Checks that the module is of these kinds and starts.
fn try_out(module: &Module, roles: &[Role], site: Site, parameters: &str) -> Result<(), SwapError> {
    let of_module = module.roles();
    if let Some(role) = roles.iter().find(|role| !of_module.contains(role)) {
        return Err(SwapError::WrongRole(*role));
    }
    if parameters.len() > TEXT_BYTES {
        let text = format!("they are longer than {TEXT_BYTES} bytes");
        return Err(SwapError::Start(Fault { hook: Hook::Init, reason: Reason::Refused(text) }));
    }
    let Site { mtu_bytes, flows } = site;
    let start = Start { mtu_bytes, flows, parameters, inherited: Decision::default() };
    Guest::start(module, &start).map(|_| ()).map_err(SwapError::Start)
}

pub(crate) fn stamp(file: &std::path::Path) -> Option<Stamp> {
    let data = std::fs::metadata(file).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&data);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp { modified: data.modified().ok(), bytes: data.len(), inode })
}

/// Locks a mutex, ignoring poison: the protected values are never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
