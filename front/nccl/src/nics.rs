//! The NICs of a communicator, or of the process, and the right to use one.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::guard::lock;
use crate::interfaces;
use crate::nic::Nic;
use crate::status::Result;

/// The NICs of the devices that are in use.
pub(crate) struct Nics {
    open: Mutex<Vec<InUse>>,
    /// Whether a NIC ends with the last object that uses it.
    ends_with_last: bool,
}

/// A NIC, and the number of objects that use it.
struct InUse {
    device: i32,
    nic: Arc<Nic>,
    leases: usize,
}

/// Keeps a NIC open. Dropping the last one may end the NIC, which takes a moment.
pub(crate) struct Lease {
    nics: Arc<Nics>,
    nic: Arc<Nic>,
}

impl Nics {
    /// No NIC is open. `ends_with_last`: a NIC ends with its last lease, and not only by
    /// [`Nics::end`].
    pub(crate) fn new(ends_with_last: bool) -> Arc<Nics> {
        Arc::new(Nics { open: Mutex::default(), ends_with_last })
    }

    /// Whether no NIC is open.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.open).is_empty()
    }

    /// Opens the device's NIC, or shares it, until the lease is dropped.
    pub(crate) fn lease(self: &Arc<Self>, device: i32) -> Result<Lease> {
        let interface = interfaces::device(device)?;
        let mut open = lock(&self.open);
        let at = match open.iter().position(|used| used.device == device) {
            Some(at) => at,
            None => {
                let nic = Arc::new(Nic::open(interface)?);
                open.push(InUse { device, nic, leases: 0 });
                open.len() - 1
            }
        };
        open[at].leases += 1;
        let nic = open[at].nic.clone();
        drop(open);
        nic.forget_closed();
        Ok(Lease { nics: self.clone(), nic })
    }

    /// Closes all NICs, whatever still uses them.
    pub(crate) fn end(&self) {
        let open = std::mem::take(&mut *lock(&self.open));
        for used in open {
            used.nic.end();
        }
    }
}

impl Lease {
    /// True if both are of the same NIC.
    pub(crate) fn shares_nic(&self, other: &Lease) -> bool {
        Arc::ptr_eq(&self.nic, &other.nic)
    }
}

impl Clone for Lease {
    fn clone(&self) -> Lease {
        let mut open = lock(&self.nics.open);
        if let Some(used) = open.iter_mut().find(|used| Arc::ptr_eq(&used.nic, &self.nic)) {
            used.leases += 1;
        }
        drop(open);
        Lease { nics: self.nics.clone(), nic: self.nic.clone() }
    }
}

impl Deref for Lease {
    type Target = Nic;

    fn deref(&self) -> &Nic {
        &self.nic
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut open = lock(&self.nics.open);
        // The NIC may have been ended before.
        let at = open.iter().position(|used| Arc::ptr_eq(&used.nic, &self.nic));
        let Some(at) = at else { return };
        open[at].leases -= 1;
        if open[at].leases > 0 || !self.nics.ends_with_last {
            return;
        }
        let used = open.swap_remove(at);
        drop(open);
        used.nic.end();
    }
}
