//! Trace records about flows.

use super::Flows;
use crate::control::{Recorder, TraceEntry, TraceRecord};
use crate::names::FlowIndex;
use alloc::boxed::Box;
use alloc::vec::Vec;
use fairway_policy::FlowId;

impl Flows {
    pub(crate) fn set_trace(&mut self, records: u32, channels: u32, flows: u32) {
        let recorder = || Box::new(Recorder::new(records as usize, channels, flows));
        self.trace = (records > 0).then(recorder);
        for index in self.all() {
            self.trace_begin(index);
        }
    }

    pub(crate) fn take_trace(&mut self, to: &mut Vec<TraceRecord>) -> u64 {
        let Some(trace) = &mut self.trace else { return 0 };
        for index in self.records.all() {
            trace.sent_all(self.now, self.records[index].channel.number(), FlowId(index.number()));
        }
        trace.take(to)
    }

    pub(super) fn trace_begin(&mut self, index: FlowIndex) {
        let Some(trace) = &mut self.trace else { return };
        let flow = &self.records[index];
        let (jetty, answers, share) = (flow.jetty, flow.answers, flow.share);
        let entry = TraceEntry::FlowBegan { flow: FlowId(index.number()), jetty, answers, share };
        trace.began(self.now, flow.channel.number(), entry);
    }

    pub(super) fn trace_end(&mut self, index: FlowIndex) {
        if let Some(trace) = &mut self.trace {
            trace.ended(self.now, self.records[index].channel.number(), FlowId(index.number()));
        }
    }

    /// Adds another kind of record about a flow.
    pub(crate) fn trace_flow(
        &mut self,
        index: FlowIndex,
        entry: impl FnOnce(FlowId) -> TraceEntry,
    ) {
        if let Some(trace) = &mut self.trace {
            trace.add(
                self.now,
                self.records[index].channel.number(),
                entry(FlowId(index.number())),
            );
        }
    }

    #[inline]
    pub(super) fn trace_sent(&mut self, index: FlowIndex, bytes: u32) {
        if let Some(trace) = &mut self.trace {
            trace.sent(
                self.now,
                self.records[index].channel.number(),
                FlowId(index.number()),
                bytes,
            );
        }
    }

    #[inline]
    pub(super) fn trace_rate(&mut self, index: FlowIndex) {
        if let Some(trace) = &mut self.trace {
            let rate = self.schedule.rate(FlowId(index.number()));
            trace.rate(
                self.now,
                self.records[index].channel.number(),
                FlowId(index.number()),
                rate,
            );
        }
    }
}
