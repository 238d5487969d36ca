//! What Jetties, groups and mailboxes are to be like.

use fairway_engine::{Dispatch, ExceptionMode, MailboxConfig, Steering, Threshold, WhenEmpty};

/// What a Jetty is to be like.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct JettyOptions {
    /// The number that peers send to; `None`: any free one. Numbers below 32 are well-known: they
    /// are given only where they are requested.
    pub number: Option<u32>,
    /// Completions it can hold (default: 1024): operations in flight, posted receives and
    /// completions not yet polled count against it. All Jetties together have
    /// [`crate::Limits::completions`], 65,536 by default: room for 64 of the default depth, or for
    /// 1,024 of depth 64, of which 32 have well-known numbers.
    pub depth: u32,
    /// The secret that peers have to name to send to it ([`crate::To::token`]); 0, the default,
    /// is what messages without a secret carry.
    pub token: u32,
    /// What becomes of it when an operation of its own is refused, or finds no receiver.
    pub exception: ExceptionMode,
}

impl Default for JettyOptions {
    fn default() -> Self {
        JettyOptions { number: None, depth: 1024, token: 0, exception: ExceptionMode::Continue }
    }
}

impl JettyOptions {
    /// With [this number](JettyOptions::number), or any free one.
    #[must_use]
    pub fn number(self, number: impl Into<Option<u32>>) -> Self {
        JettyOptions { number: number.into(), ..self }
    }

    /// With room for [so many completions](JettyOptions::depth).
    #[must_use]
    pub fn depth(self, depth: u32) -> Self {
        JettyOptions { depth, ..self }
    }

    /// With [this secret](JettyOptions::token).
    #[must_use]
    pub fn token(self, token: u32) -> Self {
        JettyOptions { token, ..self }
    }

    /// With this answer to [failures](JettyOptions::exception).
    #[must_use]
    pub fn exception(self, exception: ExceptionMode) -> Self {
        JettyOptions { exception, ..self }
    }
}

/// What a group is to be like.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct GroupOptions {
    /// The number that peers send to; `None`: any free one. Numbers are shared with Jetties.
    pub number: Option<u32>,
    /// Which member takes a message.
    pub dispatch: Dispatch,
    /// The secret that peers have to name to send to it.
    pub token: u32,
}

impl GroupOptions {
    /// With [this number](GroupOptions::number).
    #[must_use]
    pub fn number(self, number: impl Into<Option<u32>>) -> Self {
        GroupOptions { number: number.into(), ..self }
    }

    /// With this [choice of members](GroupOptions::dispatch).
    #[must_use]
    pub fn dispatch(self, dispatch: Dispatch) -> Self {
        GroupOptions { dispatch, ..self }
    }

    /// With [this secret](GroupOptions::token).
    #[must_use]
    pub fn token(self, token: u32) -> Self {
        GroupOptions { token, ..self }
    }
}

/// What a mailbox is to be like.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MailboxOptions {
    /// Its address; `None` makes it the catch-all: it takes puts to addresses that no other
    /// mailbox has.
    pub address: Option<u64>,
    /// The secret that senders have to name.
    pub key: u32,
    /// When an epoch is complete: after so many bytes, or so many puts.
    pub threshold: Threshold,
    /// Which side decides where in a buffer a put goes: the sender by an offset, or the receiver,
    /// which appends puts as in a stream.
    pub steering: Steering,
    /// What becomes of a put for which no buffer is posted: it waits, or is refused.
    pub when_empty: WhenEmpty,
    /// How many buffers of epochs that are done are kept for [`crate::Mailbox::rewind`] and for
    /// gets.
    pub retired: u32,
    /// Are puts that come after the end refused, or dropped without a word?
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
    /// At [this address](MailboxOptions::address).
    #[must_use]
    pub fn address(self, address: impl Into<Option<u64>>) -> Self {
        MailboxOptions { address: address.into(), ..self }
    }

    /// With [this secret](MailboxOptions::key).
    #[must_use]
    pub fn key(self, key: u32) -> Self {
        MailboxOptions { key, ..self }
    }

    /// With epochs that [end so](MailboxOptions::threshold).
    #[must_use]
    pub fn threshold(self, threshold: Threshold) -> Self {
        MailboxOptions { threshold, ..self }
    }

    /// With this side [choosing places](MailboxOptions::steering).
    #[must_use]
    pub fn steering(self, steering: Steering) -> Self {
        MailboxOptions { steering, ..self }
    }

    /// With this fate of puts [without a buffer](MailboxOptions::when_empty).
    #[must_use]
    pub fn when_empty(self, when_empty: WhenEmpty) -> Self {
        MailboxOptions { when_empty, ..self }
    }

    /// With [so many buffers kept](MailboxOptions::retired).
    #[must_use]
    pub fn retired(self, retired: u32) -> Self {
        MailboxOptions { retired, ..self }
    }

    /// With or without [refusals after the end](MailboxOptions::nack).
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
