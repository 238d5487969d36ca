//! The Jetty or group to which a message is sent.

use fairway_ub::wire::{JettyId, Target};

use crate::error::Error;

/// The Jetty, or Jetty group, of a peer to which a message is sent. A plain number is sufficient if
/// neither token nor hint is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct To {
    /// The number of the Jetty or group.
    pub jetty: u32,
    /// The token of the Jetty or group: [`crate::JettyOptions::token`] or
    /// [`crate::GroupOptions::token`].
    pub token: u32,
    /// For a group that dispatches by hint: the index of the member, modulo the number of members.
    pub hint: u8,
}

impl To {
    /// The Jetty or group of this number, without token and hint.
    pub fn new(jetty: u32) -> To {
        To { jetty, ..To::default() }
    }

    /// Sets the token.
    #[must_use]
    pub fn token(self, token: u32) -> To {
        To { token, ..self }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(self, hint: u8) -> To {
        To { hint, ..self }
    }

    /// Converts the target to the wire format.
    pub(crate) fn target(self) -> Result<Target, Error> {
        let To { jetty, token, hint } = self;
        if jetty > JettyId::MAX {
            return Err(Error::Number { name: "Jetty", value: jetty });
        }
        Ok(Target { jetty: JettyId::new(jetty), token_value: token, hint })
    }
}

impl From<u32> for To {
    fn from(jetty: u32) -> To {
        To::new(jetty)
    }
}

/// The Jetty that an operation with immediate data notifies, and the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyTarget {
    /// The Jetty at the peer.
    pub to: To,
    /// The immediate data of the receive's completion.
    pub immediate: u64,
}

impl NotifyTarget {
    /// Notifies `to` with `immediate`.
    pub fn new(to: impl Into<To>, immediate: u64) -> NotifyTarget {
        NotifyTarget { to: to.into(), immediate }
    }
}
