//! Puts and gets: operations that arrive for a mailbox.

use super::Channel;
use super::receive::Judgement;
use crate::api::DropReason;
use crate::arrival::{Arrival, ArrivalKind};
use crate::injected_bug::InjectedBug;
use crate::mailbox::{Admission, Mailboxes, Sender};
use crate::message::Message;
use crate::pool::Index;
use crate::shared::{Config, Shared};
use fairway_wire::{Data, Get, JettyId, Put, Refusal};

impl Channel {
    pub(crate) fn sender(&self, jetty: JettyId) -> Sender {
        Sender { channel: self.leader.0, jetty }
    }

    /// Finds the epoch that a put belongs to. All its packets go to that epoch's buffer, whichever
    /// of them arrived first.
    pub(crate) fn admit_put(
        &self,
        config: &Config,
        mailboxes: &mut Mailboxes,
        arrival: &mut Arrival,
        put: &Put,
    ) -> Result<(), Refusal> {
        arrival.kind = ArrivalKind::Put;
        let oldest = put.oldest || config.is_injected(InjectedBug::PutsOvertake);
        let put = &Put { oldest, ..*put };
        match mailboxes.admit(self.sender(arrival.remote_jetty), put) {
            Admission::Into { ticket, segment, offset } => {
                (arrival.ticket, arrival.segment, arrival.offset) = (ticket, segment, offset);
                Ok(())
            }
            // Without a ticket the put's bytes are discarded.
            Admission::Discard => Ok(()),
            Admission::Wait => {
                if !put.named && !config.is_injected(InjectedBug::KeepRoom) {
                    mailboxes.yield_room(self.sender(arrival.remote_jetty), put.mailbox);
                }
                Err(Refusal::ReceiverNotReady)
            }
            Admission::OutOfOrder => Err(Refusal::OutOfOrder),
            Admission::Refuse(refusal) => Err(refusal),
        }
    }

    /// Processes a peer's get: the bytes of the mailbox are read as in a READ.
    pub(crate) fn judge_get(
        &mut self,
        shared: &mut Shared,
        data: &Data,
        payload: u32,
        get: &Get,
        reserved: Option<Index<Message>>,
    ) -> Judgement {
        if data.index != 0 || !data.last || payload != 0 {
            return Judgement::Drop(DropReason::Malformed);
        }
        match shared.mailboxes.get(get) {
            Ok(local) => self.answer_with(shared, data, (local, None), reserved),
            Err(refusal) => Judgement::Refuse(refusal),
        }
    }
}
