//! The steps of an operation, and their costs. This module makes no decision of the protocol: the
//! engines determine what is sent, placed and completed.

use crate::adapter::{Outgoing, RECEIVES, Role};
use crate::config::{Config, Notice, Stack, Verb};
use crate::constants::{ps, transfer_ps};
use crate::random::Random;
use crate::stages::{LDST_TX, ROCE_RX, ROCE_TX, Stage, UB_RX, UB_TX};

mod submit;

macro_rules! phases {
    ($($name:ident $text:literal,)*) => {
        /// Parts of a round trip, in the order in which a table shows them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Phase { $(#[doc = $text] $name,)* }

        impl Phase {
            /// All phases.
            pub const ALL: &[Phase] = &[$(Phase::$name,)*];

            /// Name of the phase in a table.
            pub const fn name(self) -> &'static str {
                match self { $(Phase::$name => $text,)* }
            }
        }
    };
}

phases! {
    CpuCache "CPU cache lookup",
    Library "verb library, post",
    Request "work request construction",
    Fault "page fault, kernel",
    Doorbell "doorbell",
    Fetch "work request fetch",
    Sequence "sequencing",
    InitiatorContext "context fetch, initiator",
    Gather "payload gather, initiator",
    InitiatorTx "initiator NIC, transmit",
    WireOut "wire, out",
    TargetRx "target NIC, receive",
    Directory "directory",
    Snoop "snoop of a CPU's caches",
    TargetContext "context fetch, target",
    TargetTransfer "target NIC to memory",
    TargetDram "target DRAM",
    ReceiveQueue "receive queue",
    Dispatch "dispatcher",
    Serve "member",
    TargetTx "target NIC, transmit",
    WireBack "wire, back",
    InitiatorRx "initiator NIC, receive",
    Return "response into memory",
    Completion "completion entry",
    Notice "noticing the completion",
    PollLibrary "verb library, poll",
    Resident "local memory",
}

/// Resource that a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// No limited resource.
    Nothing,
    /// A core.
    Core(u32),
    /// The on-chip bus.
    Bus,
    /// PCIe towards the host.
    ToHost,
    /// PCIe towards the NIC.
    ToNic,
    /// A DMA read in flight.
    Tag,
    /// A stage of the transmit pipeline, of work requests or of loads and stores.
    Tx(u8),
    LoadTx(u8),
    Rx(u8),
    Egress {
        to: usize,
    },
    /// A doorbell that other work requests may share. `bytes` is the length of the work request,
    /// which its own doorbell would carry.
    Ring {
        core: u32,
        bytes: u32,
        blue_flame: bool,
    },
    /// The switch's port to a host, for a packet of `bytes`.
    Port {
        bytes: u32,
    },
    /// The home's directory.
    Directory,
    /// The DRAM bank of this address, for `bytes`.
    Dram {
        address: u64,
        bytes: u32,
    },
    /// A transport context and a Jetty's context, by number.
    Context {
        transport: u32,
        jetty: u32,
    },
    /// The PSN counter of a transport context.
    Psn(u32),
    /// Position in a NIC's stream of packets: none overtakes another while payload is gathered.
    Turn {
        stream: u32,
        number: u64,
    },
}

/// A step of a traversal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    pub(crate) host: usize,
    pub(crate) resource: Resource,
    pub(crate) hold_ps: u64,
    pub(crate) latency_ps: u64,
    /// True if its latency varies under `--jitter`.
    pub(crate) jitters: bool,
}

/// Steps that are taken one after the other.
pub(crate) type Steps = Vec<Step>;

/// Costs of steps, derived from the configuration.
#[derive(Debug)]
pub(crate) struct CostModel {
    pub(crate) config: Config,
    /// True if the NIC is behind PCIe.
    pub(crate) pcie: bool,
    /// Maximum additional delay of a packet on the wire: the time of [`Config::reorder`] full
    /// packets.
    pub(crate) reorder_ps: u64,
}

/// A packet's properties that the pipelines use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) payload: u32,
    pub(crate) header: u32,
    pub(crate) role: Role,
}

impl Size {
    pub(crate) fn of(outgoing: &Outgoing) -> Size {
        let payload = outgoing.gather.iter().map(|range| range.length).sum();
        Size { payload, header: outgoing.header_bytes, role: outgoing.role }
    }

    /// Bytes that the paper charges for: the payload, or 64 for a request and 8 for a response.
    fn published(self) -> u32 {
        match (self.payload, self.role) {
            (0, Role::Request) => 64,
            (0, _) => 8,
            (payload, _) => payload,
        }
    }

    fn whole(self) -> f64 {
        f64::from(self.payload + self.header)
    }
}

impl CostModel {
    pub(crate) fn new(config: &Config) -> CostModel {
        let pcie = !config.stack.is_on_chip() || config.without.bus;
        let full = f64::from(config.mtu) + config.constants.frame_bytes;
        let packet_ps = ps(full * 8.0 / config.constants.link_gbps);
        let reorder_ps = packet_ps * u64::from(config.reorder);
        CostModel { config: config.clone(), pcie, reorder_ps }
    }

    /// True for an operation by an instruction, which bypasses the transport.
    pub(crate) fn by_instruction(&self, verb: Verb) -> bool {
        let instruction = matches!(verb, Verb::Load | Verb::Store);
        match self.config.stack {
            Stack::UbLdst => instruction,
            stack => stack == Stack::Coherent,
        }
    }

    /// Rounds down to whole nanoseconds in the oracle, as the paper's simulator does.
    fn whole_ns(&self, picoseconds: u64) -> u64 {
        if self.config.oracle { picoseconds / 1000 * 1000 } else { picoseconds }
    }

    pub(crate) fn step(
        &self,
        phase: Phase,
        host: usize,
        resource: Resource,
        hold: u64,
        latency: u64,
    ) -> Step {
        let hold = if self.config.oracle { 0 } else { hold };
        Step { phase, host, resource, hold_ps: hold, latency_ps: latency, jitters: false }
    }

    fn core(&self, phase: Phase, host: usize, core: u32, ns: f64) -> Step {
        self.step(phase, host, Resource::Core(core), ps(ns), ps(ns))
    }

    /// A crossing of the on-chip bus.
    fn bus(&self, phase: Phase, host: usize, bytes: u32) -> Step {
        let constants = &self.config.constants;
        let hold = self.crossing_ps(bytes);
        let more = if self.config.oracle { 0 } else { self.more(bytes, constants.membus_gbytes) };
        self.step(phase, host, Resource::Bus, hold, ps(constants.membus_ns) + more)
    }

    /// Time for which a crossing occupies the bus, at least that of a line.
    pub(crate) fn crossing_ps(&self, bytes: u32) -> u64 {
        transfer_ps(f64::from(bytes.max(64)), self.config.constants.membus_gbytes)
    }

    /// Additional time of a transfer beyond one of 64 bytes.
    fn more(&self, bytes: u32, gbytes: f64) -> u64 {
        transfer_ps(f64::from(bytes.saturating_sub(64)), gbytes)
    }

    pub(crate) fn tlp_ps(&self, bytes: u32) -> u64 {
        let constants = &self.config.constants;
        let packets = (f64::from(bytes) / constants.pcie_payload_bytes).ceil().max(1.0);
        let whole = f64::from(bytes) + packets * constants.pcie_header_bytes;
        transfer_ps(whole, constants.pcie_gbytes)
    }

    /// A DMA write of `bytes`.
    fn dma_write(&self, phase: Phase, host: usize, bytes: u32) -> Step {
        let constants = &self.config.constants;
        let more = if self.config.oracle { 0 } else { self.more(bytes, constants.pcie_gbytes) };
        let latency = ps(constants.dma_write_ns) + more;
        let step = self.step(phase, host, Resource::ToHost, self.tlp_ps(bytes), latency);
        Step { jitters: true, ..step }
    }

    /// A DMA read: the request occupies a tag, and the data the link towards the NIC.
    fn dma_read(&self, steps: &mut Steps, phase: Phase, host: usize, bytes: u32) {
        let constants = &self.config.constants;
        let more = if self.config.oracle { 0 } else { self.more(bytes, constants.pcie_gbytes) };
        let latency = ps(constants.dma_read_ns) + more;
        if !self.config.oracle {
            steps.push(self.step(phase, host, Resource::ToNic, self.tlp_ps(bytes), 0));
        }
        let step = self.step(phase, host, Resource::Tag, latency, latency);
        steps.push(Step { jitters: true, ..step });
    }

    fn dram(&self, phase: Phase, host: usize, address: u64, bytes: u32) -> Step {
        self.step(
            phase,
            host,
            Resource::Dram { address, bytes },
            0,
            ps(self.config.constants.dram_ns),
        )
    }

    /// Steps of a sent packet from memory into the NIC.
    pub(crate) fn gather(&self, host: usize, size: Size, address: u64) -> Steps {
        let mut steps = Vec::with_capacity(24);
        if size.payload == 0 {
            return steps;
        }
        let target = size.role == Role::Response;
        if !target {
            // In the paper, the payload comes with the work request, whatever its length.
            let inline = f64::from(size.payload) <= self.config.constants.inline_bytes;
            if !self.config.oracle && !inline {
                if self.pcie {
                    self.dma_read(&mut steps, Phase::Gather, host, size.payload);
                } else {
                    steps.push(self.bus(Phase::Gather, host, size.payload));
                }
            }
            return steps;
        }
        if self.pcie {
            self.dma_read(&mut steps, Phase::TargetTransfer, host, size.payload);
        } else {
            let step = self.bus(Phase::TargetTransfer, host, size.payload);
            steps.push(Step { jitters: true, ..step });
        }
        steps.push(self.dram(Phase::TargetDram, host, address, size.payload));
        steps
    }

    fn published_cycles(&self, bypass: bool) -> f64 {
        let constants = &self.config.constants;
        match (self.config.stack.is_ub(), bypass) {
            (true, true) => constants.nic_load_cycles,
            (true, false) => constants.nic_urma_cycles,
            (false, _) => constants.nic_roce_cycles,
        }
    }

    /// A traversal of a NIC, as the paper charges for it.
    fn traversal(&self, phase: Phase, host: usize, sizes: &[Size], bypass: bool) -> Step {
        let bytes: u32 = sizes.iter().map(|size| size.published()).sum();
        let flit = self.config.constants.flit_bytes;
        let extra = (f64::from(bytes) / flit).ceil().max(1.0) - 1.0;
        let cycles = self.published_cycles(bypass) + extra;
        let latency = self.whole_ns(ps(cycles * self.config.constants.cycle_ns));
        self.step(phase, host, Resource::Nothing, 0, latency)
    }

    fn pipeline(&self, bypass: bool, receive: bool) -> &'static [Stage] {
        match (self.config.stack.is_on_chip(), receive, bypass) {
            (true, false, true) => LDST_TX,
            (true, false, false) => UB_TX,
            (true, true, _) => UB_RX,
            (false, false, _) => ROCE_TX,
            (false, true, _) => ROCE_RX,
        }
    }

    /// Time for which a packet occupies the data path.
    fn flits_ps(&self, size: Size) -> u64 {
        let constants = &self.config.constants;
        ps((size.whole() / constants.flit_bytes).ceil() * constants.cycle_ns)
    }

    /// Time until a NIC requests the next packet from its engine.
    pub(crate) fn pull_ps(&self, size: Size) -> u64 {
        if self.config.oracle {
            return 0;
        }
        let coherent = self.config.stack == Stack::Coherent;
        let slowest = self.pipeline(coherent, false).iter().map(|stage| stage.interval).max();
        let slowest = slowest.unwrap_or(1) as f64 * self.config.constants.cycle_ns;
        ps(slowest).max(self.flits_ps(size))
    }

    fn stages(&self, steps: &mut Steps, phase: Phase, host: usize, size: Size, bypass: bool) {
        let receive = matches!(phase, Phase::TargetRx | Phase::InitiatorRx);
        let constants = &self.config.constants;
        let stages = self.pipeline(bypass, receive);
        for (index, stage) in stages.iter().enumerate() {
            // Stages that only the host's own requests pass.
            let is_entry =
                matches!(stage.name, "doorbell" | "jsched" | "ord_ini" | "ldst" | "qptx");
            if is_entry && size.role != Role::Request {
                continue;
            }
            let number = index as u8;
            let resource = match (receive, bypass) {
                (true, _) => Resource::Rx(number),
                (false, true) => Resource::LoadTx(number),
                (false, false) => Resource::Tx(number),
            };
            let mut hold = ps(stage.interval as f64 * constants.cycle_ns);
            let mut latency = ps(stage.cycles as f64 * constants.cycle_ns);
            // Payload passes the data path once, at the stage next to the wire.
            if stage.name.starts_with("eth") {
                hold = hold.max(self.flits_ps(size));
                let flits = (f64::from(size.payload) / constants.flit_bytes).ceil().max(1.0);
                latency += ps((flits - 1.0) * constants.cycle_ns);
            }
            steps.push(self.step(phase, host, resource, hold, latency));
        }
    }

    /// Steps from one NIC through the other.
    pub(crate) fn travel(
        &self,
        steps: &mut Steps,
        ends: [usize; 2],
        sizes: &[Size],
        bypass: bool,
        outward: bool,
    ) {
        let [tx, wire, rx] = if outward {
            [Phase::InitiatorTx, Phase::WireOut, Phase::TargetRx]
        } else {
            [Phase::TargetTx, Phase::WireBack, Phase::InitiatorRx]
        };
        let constants = &self.config.constants;
        let egress = Resource::Egress { to: ends[1] };
        if self.config.oracle {
            steps.push(self.traversal(tx, ends[0], sizes, bypass));
            let bytes: u32 = sizes.iter().map(|size| size.published()).sum();
            let latency =
                ps(self.config.link_ns) + ps(f64::from(bytes) * 8.0 / constants.link_gbps);
            let step = self.step(wire, ends[0], egress, 0, self.whole_ns(latency));
            steps.push(Step { jitters: true, ..step });
            steps.push(self.traversal(rx, ends[1], sizes, bypass));
            return;
        }
        for &size in sizes {
            self.stages(steps, tx, ends[0], size, bypass);
            let bytes = size.whole() + constants.frame_bytes;
            let serial = ps(bytes * 8.0 / constants.link_gbps);
            let step = self.step(wire, ends[0], egress, serial, ps(self.config.link_ns) + serial);
            steps.push(Step { jitters: true, ..step });
            if self.config.hosts > 2 {
                // Cut-through: a packet that does not wait at the port spends no time there.
                let port = Resource::Port { bytes: bytes as u32 };
                steps.push(self.step(wire, ends[1], port, serial, 0));
            }
            self.stages(steps, rx, ends[1], size, bypass);
        }
    }

    /// A lookup of the directory for a message at the home of a coherent fabric.
    pub(crate) fn look_up(&self, host: usize) -> Step {
        let constants = &self.config.constants;
        let (hold, latency) = (ps(constants.directory_hold_ns), ps(constants.directory_ns));
        self.step(Phase::Directory, host, Resource::Directory, hold, latency)
    }

    /// A snoop of a CPU's caches.
    pub(crate) fn snoop(&self, host: usize) -> Steps {
        let caches = ps(self.config.constants.l2_ns);
        let look = self.step(Phase::Snoop, host, Resource::Nothing, 0, caches);
        vec![self.bus(Phase::Snoop, host, 64), look]
    }

    /// Time for which a lossless link stops because of a loss: it is retrained, or repeats after a
    /// round trip.
    pub(crate) fn repair_ps(&self, random: &mut Random) -> u64 {
        let constants = &self.config.constants;
        if random.unit() < constants.retrain_share {
            return ps(constants.retrain_us * 1000.0);
        }
        2 * ps(self.config.link_ns)
    }

    /// Steps from the target's NIC into its memory, or to a word there.
    pub(crate) fn place_at_target(
        &self,
        host: usize,
        segment: usize,
        address: u64,
        bytes: u32,
        is_word: bool,
    ) -> Steps {
        let constants = &self.config.constants;
        let mut steps = Vec::with_capacity(6);
        let phase = Phase::TargetTransfer;
        if !self.pcie {
            let step = self.bus(phase, host, bytes);
            steps.push(Step { jitters: true, ..step });
        } else if is_word {
            self.dma_read(&mut steps, phase, host, bytes);
        } else {
            steps.push(self.dma_write(phase, host, bytes));
        }
        steps.push(self.dram(Phase::TargetDram, host, address, bytes));
        if segment == RECEIVES {
            let cycles = self.whole_ns(ps(constants.recv_cycles * constants.cycle_ns));
            let latency = ps(constants.recv_bus_ns) + cycles;
            // In the paper, the sender waits for the dispatcher, too.
            let several = self.config.oracle && self.config.remote_jetties > 1;
            let dispatched = !self.config.stack.is_ub() && several;
            let more = if dispatched { ps(constants.dispatch_ns) } else { 0 };
            let phase = Phase::ReceiveQueue;
            steps.push(self.step(phase, host, Resource::Nothing, 0, latency + more));
        }
        steps
    }

    /// The completion entry of a receive, on its way to the core that polls for it.
    pub(crate) fn receive_entry(&self, host: usize) -> Step {
        match self.pcie {
            true => self.dma_write(Phase::ReceiveQueue, host, 64),
            false => self.bus(Phase::ReceiveQueue, host, 64),
        }
    }

    /// Steps from the initiator's NIC into its memory.
    pub(crate) fn place_at_initiator(&self, host: usize, verb: Verb, bytes: u32) -> Steps {
        if verb.is_atomic() {
            // The old value comes with the completion entry.
            return Vec::new();
        }
        vec![match self.pcie {
            true => self.dma_write(Phase::Return, host, bytes),
            false => self.bus(Phase::Return, host, bytes),
        }]
    }

    /// Steps from the NIC's decision that an operation is done to the application.
    pub(crate) fn complete(&self, host: usize, core: u32, verb: Verb, bypass: bool) -> Steps {
        let constants = &self.config.constants;
        let mut steps = Vec::with_capacity(4);
        if self.by_instruction(verb) || bypass {
            if !verb.is_incoming() && self.config.stack != Stack::Coherent {
                steps.push(self.bus(Phase::Return, host, 8));
            }
            return steps;
        }
        if self.pcie {
            steps.push(self.dma_write(Phase::Completion, host, 64));
        } else if !verb.is_incoming() {
            // With payload, the entry crosses the bus together with it.
            steps.push(self.bus(Phase::Completion, host, 64));
        }
        let poll = if self.pcie { constants.cqe_poll_pcie_ns } else { constants.cqe_poll_chip_ns };
        if self.config.notice == Notice::Interrupt {
            let (hold, latency) = (ps(constants.interrupt_hold_ns), ps(constants.interrupt_ns));
            steps.push(self.step(Phase::Notice, host, Resource::Core(core), hold, latency));
        }
        if self.config.notice == Notice::Call {
            steps.push(self.core(Phase::Notice, host, core, constants.interrupt_hold_ns));
        }
        steps.push(self.core(Phase::Notice, host, core, poll));
        steps.push(self.core(Phase::PollLibrary, host, core, constants.poll_lib_ns));
        steps
    }
}
