//! Schedulers.

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use fairway_policy::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_wire::Instant;

use crate::{EVENT_BYTES, Slot, Start, area, pair, start};

/// Exports a scheduler: a type with `Scheduler` and `Start`.
#[macro_export]
macro_rules! scheduler {
    ($policy:ty) => {
        static POLICY: $crate::Slot<$policy> = $crate::Slot::new();
        static FLOWS: $crate::Slot<$crate::Flows> = $crate::Slot::new();
        $crate::exports!();
        #[unsafe(no_mangle)]
        extern "C" fn fairway_init() -> u32 {
            $crate::start_scheduler(&POLICY, &FLOWS)
        }
        #[unsafe(no_mangle)]
        extern "C" fn fairway_rates() -> u32 {
            $crate::rates_address(&FLOWS)
        }
        #[unsafe(no_mangle)]
        extern "C" fn flow_started(now_ps: u64, flow: u32) -> u32 {
            $crate::flow_started(&POLICY, &FLOWS, now_ps, flow)
        }
        #[unsafe(no_mangle)]
        extern "C" fn flow_ended(now_ps: u64, flow: u32) -> u32 {
            $crate::flow_ended(&POLICY, &FLOWS, now_ps, flow)
        }
        #[unsafe(no_mangle)]
        extern "C" fn share_changed(now_ps: u64, flow: u32) -> u32 {
            $crate::share_changed(&POLICY, &FLOWS, now_ps, flow)
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_transmit(flow: u32) -> u32 {
            $crate::on_transmit(&POLICY, &FLOWS, flow)
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_hint(now_ps: u64, flow: u32, hint: u64) -> u32 {
            $crate::on_hint(&POLICY, &FLOWS, (now_ps, flow, hint))
        }
    };
}

/// An entry of the list that the host reads.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    bytes_per_second: u64,
    flow: u32,
    quantum_bytes: u32,
}

/// The registers that the policy writes, and what the host knows of them.
pub struct Flows {
    rates: RateRegisters,
    reported: Box<[(u64, u32)]>,
    active: Vec<u32>,
    list: Box<[Entry]>,
}

impl Flows {
    fn new(flows: u32) -> Flows {
        let entry = Entry { bytes_per_second: 0, flow: 0, quantum_bytes: 0 };
        Flows {
            rates: RateRegisters::new(flows),
            reported: vec![(RateRegisters::UNLIMITED, 0); flows as usize].into_boxed_slice(),
            active: Vec::with_capacity(flows as usize),
            list: vec![entry; flows as usize].into_boxed_slice(),
        }
    }

    fn begin(&mut self, flow: u32) {
        let is_new = (flow as usize) < self.reported.len() && !self.active.contains(&flow);
        if is_new {
            self.active.push(flow);
        }
    }

    /// Lists the flows that have changed. Returns their number.
    fn list<P: Scheduler>(&mut self, policy: &P) -> u32 {
        let mut count = 0;
        for flow in &self.active {
            let id = FlowId(*flow);
            let bytes_per_second = self.rates.get(id);
            let quantum_bytes = policy.quantum_bytes(id).unwrap_or(0);
            let reported = &mut self.reported[*flow as usize];
            if *reported != (bytes_per_second, quantum_bytes) {
                *reported = (bytes_per_second, quantum_bytes);
                self.list[count] = Entry { bytes_per_second, flow: *flow, quantum_bytes };
                count += 1;
            }
        }
        count as u32
    }
}

pub fn start_scheduler<P: Start + Scheduler>(slot: &Slot<P>, flows: &Slot<Flows>) -> u32 {
    let started = start(slot);
    *flows.get() = Some(Flows::new(area().start[3]));
    area().start[EVENT_BYTES] = slot.get().as_ref().map_or(0, Scheduler::event_bytes);
    u32::from(!started)
}

pub fn rates_address(flows: &Slot<Flows>) -> u32 {
    flows.get().as_ref().map_or(0, |flows| flows.list.as_ptr() as usize as u32)
}

/// Calls the policy, and lists what it has changed.
fn with<P: Scheduler>(
    slot: &Slot<P>,
    flows: &Slot<Flows>,
    call: impl FnOnce(&mut P, &RateRegisters),
) -> u32 {
    let (Some(policy), Some(flows)) = (slot.get(), flows.get()) else { return 0 };
    call(policy, &flows.rates);
    area().start[EVENT_BYTES] = policy.event_bytes();
    flows.list(policy)
}

fn share() -> Share {
    let words = &area().sample;
    let (tenant, weight) = pair(words[0]);
    Share { tenant: tenant as u16, weight: weight as u16, tenant_weight: words[1] as u16 }
}

pub fn flow_started<P: Scheduler>(
    slot: &Slot<P>,
    flows: &Slot<Flows>,
    now_ps: u64,
    flow: u32,
) -> u32 {
    if let Some(flows) = flows.get() {
        flows.begin(flow);
    }
    let now = Instant::from_ps(now_ps);
    with(slot, flows, |policy, rates| policy.flow_started(now, FlowId(flow), share(), rates))
}

pub fn flow_ended<P: Scheduler>(
    slot: &Slot<P>,
    flows: &Slot<Flows>,
    now_ps: u64,
    flow: u32,
) -> u32 {
    let now = Instant::from_ps(now_ps);
    let count = with(slot, flows, |policy, rates| policy.flow_ended(now, FlowId(flow), rates));
    if let Some(flows) = flows.get() {
        flows.active.retain(|active| *active != flow);
    }
    count
}

pub fn share_changed<P: Scheduler>(
    slot: &Slot<P>,
    flows: &Slot<Flows>,
    now_ps: u64,
    flow: u32,
) -> u32 {
    let now = Instant::from_ps(now_ps);
    with(slot, flows, |policy, rates| policy.share_changed(now, FlowId(flow), share(), rates))
}

pub fn on_transmit<P: Scheduler>(slot: &Slot<P>, flows: &Slot<Flows>, flow: u32) -> u32 {
    let words = &area().sample;
    let (events, flags) = pair(words[2]);
    let sample = TransmitSample {
        now: Instant::from_ps(words[0]),
        bytes: words[1],
        events,
        backlogged: flags & 1 != 0,
        paced: flags & 2 != 0,
    };
    with(slot, flows, |policy, rates| policy.on_transmit(FlowId(flow), &sample, rates))
}

/// A hint, with its time, its flow and its value.
pub fn on_hint<P: Scheduler>(slot: &Slot<P>, flows: &Slot<Flows>, hint: (u64, u32, u64)) -> u32 {
    let (now_ps, flow, hint) = hint;
    let now = Instant::from_ps(now_ps);
    with(slot, flows, |policy, rates| policy.on_hint(now, FlowId(flow), hint, rates))
}
