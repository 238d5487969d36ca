//! What lives between `init` and `finalize`: NICs, and attempts to connect.
//!
//! From version 11 on each communicator of NCCL has an instance, and `finalize` ends it. Earlier
//! versions have one for the process, and no end: there, a NIC ends with the last object that uses
//! it, and is opened again when it is needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use crate::attempt::Attempts;
use crate::interfaces;
use crate::log;
use crate::nics::Nics;
use crate::object::Object;
use crate::settings;
use crate::status::Result;

/// The instance of versions without `finalize`.
static PROCESS: LazyLock<Instance> = LazyLock::new(|| Instance::new(true));
/// Number of instances of communicators.
static COMMUNICATORS: AtomicUsize = AtomicUsize::new(0);

/// The NICs and the attempts of a communicator, or of the process.
pub(crate) struct Instance {
    pub(crate) nics: Arc<Nics>,
    pub(crate) attempts: Attempts,
}

impl Object for Instance {
    const NAME: &'static str = "context of init";
    const TAG: u64 = 0x6661_6972_6e63_6301;
}

/// `init` of the versions before 11.
pub(crate) fn begin_process(logger: Option<log::Logger>) -> Result<()> {
    PROCESS.attempts.drop_abandoned();
    prepare(logger)
}

/// The instance of the versions before 11.
pub(crate) fn of_process() -> &'static Instance {
    &PROCESS
}

/// `init` of the versions from 11 on.
pub(crate) fn begin_communicator(logger: Option<log::Logger>) -> Result<Instance> {
    prepare(logger)?;
    COMMUNICATORS.fetch_add(1, Ordering::AcqRel);
    Ok(Instance::new(false))
}

/// `finalize`.
pub(crate) fn end_communicator(instance: Instance) {
    let Instance { nics, attempts } = instance;
    drop(attempts);
    nics.end();
    COMMUNICATORS.fetch_sub(1, Ordering::AcqRel);
}

/// Checks the settings, and lists the devices anew unless some are in use: NCCL knows them by
/// number.
fn prepare(logger: Option<log::Logger>) -> Result<()> {
    log::set(logger);
    settings::builder()?;
    if COMMUNICATORS.load(Ordering::Acquire) == 0 && PROCESS.nics.is_empty() {
        let count = interfaces::refresh()?;
        log::info(&format!("{count} devices"));
    }
    Ok(())
}

impl Instance {
    fn new(ends_with_last: bool) -> Instance {
        Instance { nics: Nics::new(ends_with_last), attempts: Attempts::default() }
    }
}
