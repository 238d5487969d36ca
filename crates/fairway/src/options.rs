//! Options of Jetties, groups and mailboxes.

use fairway_ub::{Dispatch, ExceptionMode, MailboxConfig, Steering, Threshold, WhenEmpty};

/// Options of a Jetty.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JettyOptions {
    /// The number that peers send to; `None`: any free one. Numbers below 32 are well-known: they
    /// are assigned only if requested.
    pub number: Option<u32>,
    /// Capacity of its completion queue (default: 1024): operations in flight, posted receives and
    /// completions not yet polled count against it. All Jetties together have
    /// [`crate::Limits::completions`], 65,536 by default: enough for 64 Jetties of the default
    /// depth, or for 1,024 of depth 64, of which 32 have well-known numbers.
    pub depth: u32,
    /// The secret that peers must name to send to the Jetty ([`crate::To::token`]); 0, the default,
    /// is the value in messages without a secret.
    pub token: u32,
    /// The Jetty's reaction when an operation of its own is refused, or finds no receiver.
    pub exception: ExceptionMode,
}

impl Default for JettyOptions {
    fn default() -> Self {
        JettyOptions { number: None, depth: 1024, token: 0, exception: ExceptionMode::Continue }
    }
}

impl JettyOptions {
    /// Sets [the number](JettyOptions::number); `None` means any free one.
    #[must_use]
    pub fn number(self, number: impl Into<Option<u32>>) -> Self {
        JettyOptions { number: number.into(), ..self }
    }

    /// Sets [the number of completions](JettyOptions::depth) that the Jetty can hold.
    #[must_use]
    pub fn depth(self, depth: u32) -> Self {
        JettyOptions { depth, ..self }
    }

    /// Sets [the secret](JettyOptions::token).
    #[must_use]
    pub fn token(self, token: u32) -> Self {
        JettyOptions { token, ..self }
    }

    /// Sets [the reaction to failures](JettyOptions::exception).
    #[must_use]
    pub fn exception(self, exception: ExceptionMode) -> Self {
        JettyOptions { exception, ..self }
    }
}

/// Options of a group.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct GroupOptions {
    /// The number that peers send to; `None`: any free one. Groups and Jetties share one range of
    /// numbers.
    pub number: Option<u32>,
    /// The rule that selects the member which receives a message.
    pub dispatch: Dispatch,
    /// The secret that peers must name to send to the group.
    pub token: u32,
}

impl GroupOptions {
    /// Sets [the number](GroupOptions::number).
    #[must_use]
    pub fn number(self, number: impl Into<Option<u32>>) -> Self {
        GroupOptions { number: number.into(), ..self }
    }

    /// Sets [the rule that selects members](GroupOptions::dispatch).
    #[must_use]
    pub fn dispatch(self, dispatch: Dispatch) -> Self {
        GroupOptions { dispatch, ..self }
    }

    /// Sets [the secret](GroupOptions::token).
    #[must_use]
    pub fn token(self, token: u32) -> Self {
        GroupOptions { token, ..self }
    }
}

/// Options of a mailbox.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MailboxOptions {
    /// The mailbox's address; `None` makes it the catch-all, which receives puts to addresses that
    /// no other mailbox has.
    pub address: Option<u64>,
    /// The secret that senders must name.
    pub key: u32,
    /// The number of bytes, or of puts, after which an epoch is complete.
    pub threshold: Threshold,
    /// The side that decides where in a buffer a put is stored: the sender by an offset, or the
    /// receiver, which appends puts as in a stream.
    pub steering: Steering,
    /// The treatment of a put for which no buffer is posted: it waits, or is refused.
    pub when_empty: WhenEmpty,
    /// Number of buffers of ended epochs that are retained for [`crate::Mailbox::rewind`] and for
    /// gets.
    pub retired: u32,
    /// True if puts to a closed mailbox are refused, false if they are silently dropped.
    pub nack: bool,
}

impl Default for MailboxOptions {
    fn default() -> Self {
        MailboxOptions {
            address: Some(0),
            key: 0,
            threshold: Threshold::Operations(1),
            steering: Steering::Sender,
            when_empty: WhenEmpty::Wait,
            retired: 0,
            nack: true,
        }
    }
}

impl MailboxOptions {
    /// Sets [the address](MailboxOptions::address).
    #[must_use]
    pub fn address(self, address: impl Into<Option<u64>>) -> Self {
        MailboxOptions { address: address.into(), ..self }
    }

    /// Sets [the secret](MailboxOptions::key).
    #[must_use]
    pub fn key(self, key: u32) -> Self {
        MailboxOptions { key, ..self }
    }

    /// Sets [the end of epochs](MailboxOptions::threshold).
    #[must_use]
    pub fn threshold(self, threshold: Threshold) -> Self {
        MailboxOptions { threshold, ..self }
    }

    /// Sets [the side that chooses places](MailboxOptions::steering).
    #[must_use]
    pub fn steering(self, steering: Steering) -> Self {
        MailboxOptions { steering, ..self }
    }

    /// Sets [the treatment of puts without a buffer](MailboxOptions::when_empty).
    #[must_use]
    pub fn when_empty(self, when_empty: WhenEmpty) -> Self {
        MailboxOptions { when_empty, ..self }
    }

    /// Sets [the number of retained buffers](MailboxOptions::retired).
    #[must_use]
    pub fn retired(self, retired: u32) -> Self {
        MailboxOptions { retired, ..self }
    }

    /// Sets [whether late puts are refused](MailboxOptions::nack).
    #[must_use]
    pub fn nack(self, nack: bool) -> Self {
        MailboxOptions { nack, ..self }
    }
}

impl MailboxOptions {
    pub(crate) fn config(&self) -> MailboxConfig {
        MailboxConfig {
            address: self.address,
            key: self.key,
            threshold: self.threshold,
            steering: self.steering,
            when_empty: self.when_empty,
            retired: self.retired,
        }
    }
}
