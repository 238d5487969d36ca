//! Buffers of messages whose location the receiver chooses: receives of a Jetty, or, for puts, the
//! buffers of a mailbox.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use fairway::{
    Completion, Context, Epoch, EpochRecord, LocalSlice, Mailbox, MailboxOptions, WhenEmpty,
};

use super::message::{MAILBOX, Run};
use crate::failure::Failure;

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Number of the buffer that holds the message.
    pub(super) buffer: u32,
    pub(super) bytes: u64,
    pub(super) immediate: u64,
    /// The sender's Jetty, if it is known.
    pub(super) sender: u32,
}

impl Arrival {
    /// Converts the completion of a receive.
    pub(super) fn of(completion: &Completion) -> Self {
        Arrival {
            buffer: completion.id.value() as u32,
            bytes: u64::from(completion.bytes),
            immediate: completion.immediate.unwrap_or_default(),
            sender: completion.remote_jetty.value(),
        }
    }
}

/// A mailbox each of whose buffers takes one put.
pub(super) struct PutBox {
    context: Context,
    mailbox: Mailbox,
    /// Records that a latency measurement polls, one per buffer; if empty, the mailbox is polled.
    records: Vec<Arc<EpochRecord>>,
    /// Buffers with a record, in the order in which they are filled.
    posted: RefCell<VecDeque<u32>>,
    epochs: Vec<Epoch>,
}

impl PutBox {
    /// Creates the mailbox of a session, with up to `buffers` buffers.
    pub(super) fn new(context: &Context, run: &Run, buffers: u32) -> Result<Self, Failure> {
        let mailbox = context.create_mailbox(
            &MailboxOptions::default()
                .address(MAILBOX)
                .key(run.mail_to().key)
                .when_empty(WhenEmpty::Wait),
        )?;
        let watched = if run.ping_pong { buffers } else { 0 };
        Ok(PutBox {
            context: context.clone(),
            mailbox,
            records: (0..watched).map(|_| Arc::new(EpochRecord::new())).collect(),
            posted: RefCell::default(),
            epochs: Vec::new(),
        })
    }

    /// Posts a buffer to the mailbox.
    pub(super) fn offer(&self, local: LocalSlice<'_>, buffer: u32) -> Result<(), Failure> {
        let Some(record) = self.records.get(buffer as usize) else {
            return Ok(self.mailbox.post(local, u64::from(buffer))?);
        };
        self.mailbox.post_recorded(local, u64::from(buffer), record)?;
        self.posted.borrow_mut().push_back(buffer);
        Ok(())
    }

    /// Appends the puts that have arrived. Polls the NIC.
    pub(super) fn poll(&mut self, out: &mut Vec<Arrival>) {
        if self.records.is_empty() {
            self.mailbox.poll(&mut self.epochs);
            out.extend(self.epochs.drain(..).map(|epoch| arrival(epoch.id.value(), epoch.bytes)));
            return;
        }
        self.context.poll();
        let mut posted = self.posted.borrow_mut();
        while let Some(&buffer) = posted.front() {
            let record = &self.records[buffer as usize];
            let Some(done) = record.get() else { break };
            record.clear();
            posted.pop_front();
            out.push(arrival(done.id, done.length));
        }
    }
}

fn arrival(id: u64, bytes: u64) -> Arrival {
    Arrival { buffer: id as u32, bytes, immediate: 0, sender: 0 }
}
