//! Groups: one number for several Jetties.

use std::fmt;
use std::sync::Arc;

use fairway_ub::wire::JettyId;

use crate::error::Error;
use crate::jetty::Jetty;
use crate::shared::Handle;

/// A number under which several Jetties receive. Every message to it goes to one member that is
/// ready and has a receive posted; while there is none, the message waits. Dropping the group
/// removes the number; its members stay.
///
/// ```no_run
/// # fn example(context: &fairway::Context) -> Result<(), fairway::Error> {
/// use fairway::{Dispatch, GroupOptions};
///
/// let jetty = || context.create_jetty(Default::default());
/// let workers = [jetty()?, jetty()?];
/// let options = GroupOptions::default().number(9).dispatch(Dispatch::LeastDepth);
/// let group = context.create_group(options)?;
/// for worker in &workers {
///     group.join(worker)?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct JettyGroup {
    handle: Arc<Handle>,
    id: JettyId,
}

impl JettyGroup {
    pub(crate) fn new(handle: Arc<Handle>, id: JettyId) -> Self {
        JettyGroup { handle, id }
    }

    /// The number that peers send to.
    pub fn number(&self) -> u32 {
        self.id.value()
    }

    /// Adds a Jetty of the same context to the group, which has at most 32 members.
    ///
    /// # Errors
    /// It does already, the group is full, or it is a Jetty of another context.
    pub fn join(&self, jetty: &Jetty) -> Result<(), Error> {
        self.check(jetty)?;
        self.handle.live()?.with(|core| core.join_group(self.id, jetty.id()))
    }

    /// Removes a Jetty from the group. Messages that were dispatched to it still arrive there. (A
    /// Jetty that is dropped leaves the group automatically.)
    ///
    /// # Errors
    /// It is no member, or it is a Jetty of another context.
    pub fn leave(&self, jetty: &Jetty) -> Result<(), Error> {
        self.check(jetty)?;
        self.handle.live()?.with(|core| core.leave_group(self.id, jetty.id()))
    }

    fn check(&self, jetty: &Jetty) -> Result<(), Error> {
        if jetty.belongs_to(&self.handle) { Ok(()) } else { Err(Error::Foreign { what: "Jetty" }) }
    }
}

impl Drop for JettyGroup {
    fn drop(&mut self) {
        if let Ok(shared) = self.handle.live() {
            shared.with(|core| core.drop_group(self.id));
        }
    }
}

impl fmt::Debug for JettyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JettyGroup").field("number", &self.number()).finish_non_exhaustive()
    }
}
