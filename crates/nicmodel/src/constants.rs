//! Every constant of the model: its name, default, unit and source. A run may override any of them
//! by name, and the report of a run can print all of them.
//!
//! Sources: *P* is the cost model of the OpenURMA paper (§5.2, §8.1) and its artifact; *C* is a
//! value that the paper's authors calibrated without a measurement; *A* is our assumption, made
//! because the paper has no such term (it has no occupancies at all), with the reason.

use crate::error::ConfigError;

/// Description of one constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// Name on the command line.
    pub name: &'static str,
    /// Default value.
    pub default: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Source of the value.
    pub source: &'static str,
}

/// The largest value that any constant may have.
pub const MOST: f64 = 1e12;

/// Bounds of constants that are numbers of resources, or divisors.
const BOUNDS: &[(&str, f64, f64)] = &[
    ("kernel_workers", 1.0, 4096.0),
    ("directory_entries", 1.0, 16_777_216.0),
    ("directory_ways", 1.0, 4096.0),
    ("prefetch_lines", 0.0, 1024.0),
    ("import_calls", 0.0, 1024.0),
    ("link_gbps", 0.001, MOST),
    ("membus_gbytes", 0.001, MOST),
    ("pcie_gbytes", 0.001, MOST),
    ("pcie_payload_bytes", 1.0, MOST),
    ("pcie_tags", 1.0, 65_536.0),
    ("flit_bytes", 1.0, MOST),
    ("rto_us", 1.0, 1e6),
    ("rnr_us", 0.01, 1e6),
    ("irn_kept", 0.0, 65_536.0),
    ("row_bytes", 64.0, MOST),
    ("page_bytes", 64.0, 1_073_741_824.0),
    ("dram_banks", 1.0, 65_536.0),
    ("l1_lines", 0.0, 16_777_216.0),
    ("l2_lines", 0.0, 16_777_216.0),
];

impl Constants {
    /// Checks that the model can be made from the constants.
    ///
    /// # Errors
    /// Names the wrong constant, its value, and the allowed range.
    pub fn check(&self) -> Result<(), ConfigError> {
        for &(name, low, high) in BOUNDS {
            let value = self.get(name).unwrap_or_default();
            if !(low..=high).contains(&value) {
                return Err(ConfigError::Constant { name, value, low, high });
            }
        }
        // The clock has to hold the sum of many times, so each is at most a second, or a second per
        // GB.
        for &Constant { name, unit, .. } in ALL {
            let value = self.get(name).unwrap_or_default();
            let most = match unit {
                "ns" | "bytes" | "cycles" => 1e9,
                "us" => 1e6,
                "share" => 1.0,
                _ => MOST,
            };
            if value > most {
                return Err(ConfigError::ConstantUnit { name, value, most, unit });
            }
        }
        Ok(())
    }
}

macro_rules! constants {
    ($($name:ident = $default:literal, $unit:literal, $source:literal;)*) => {
        /// The constants of a run.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Constants {
            $(#[doc = concat!("In ", $unit, ". ", $source)] pub $name: f64,)*
        }

        impl Default for Constants {
            fn default() -> Self {
                Constants { $($name: $default,)* }
            }
        }

        /// All constants, in the order of the model's parts.
        pub const ALL: &[Constant] = &[
            $(Constant {
                name: stringify!($name),
                default: $default,
                unit: $unit,
                source: $source,
            },)*
        ];

        impl Constants {
            /// Sets the constant of this name.
            ///
            /// # Errors
            /// If there is none, or if the value is negative, more than [`MOST`] or not a number.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), ConfigError> {
                let named = || name.to_owned();
                if !value.is_finite() || value < 0.0 {
                    return Err(ConfigError::ConstantNegative { name: named(), value });
                }
                if value > MOST {
                    return Err(ConfigError::ConstantMost { name: named(), value, most: MOST });
                }
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return Err(ConfigError::UnknownConstant(named())),
                }
                Ok(())
            }

            /// Returns the value of the constant of this name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

constants! {
    post_lib_ns = 50.0, "ns", "P: verb library, posting";
    poll_lib_ns = 30.0, "ns", "P: verb library, polling";
    wqe_ns = 30.0, "ns", "P: work request construction";
    cqe_poll_pcie_ns = 70.0, "ns", "P: reading a completion that DMA has written to host memory";
    cqe_poll_chip_ns = 5.0, "ns", "P: reading a completion on the chip";
    load_issue_ns = 1.0, "ns",
        "A: a load takes its core for three cycles of 3 GHz, then waits in an MSHR";
    mmio_hold_ns = 20.0, "ns",
        "A: a posted MMIO write holds its core until the write-combining buffer drains (64 B)";
    interrupt_ns = 1098.0, "ns",
        "P: interrupt, scheduler and wake-up, the OS part of path (c) of the paper's gem5 runs";
    interrupt_hold_ns = 455.0, "ns", "P: the core's part of it (the OS part of path (b))";
    l1_ns = 1.0, "ns", "P: L1 hit";
    l2_ns = 4.0, "ns", "P: L2 hit";
    miss_ns = 70.0, "ns", "P: finding that a line is in no cache, at the price of local DRAM";
    l1_lines = 512.0, "lines of 64 B", "P: 32 KB";
    l2_lines = 8192.0, "lines of 64 B", "P: 512 KB";
    cache_ways = 8.0, "ways", "A: set-associative, as CPUs are (the oracle: fully associative)";
    mshrs = 16.0, "loads", "A: line fill buffers of one core, 10 to 16 in CPUs since 2013";
    prefetch_lines = 0.0, "lines",
        "A: ahead of three loads at equal distances (ub-ldst with a cache; CPUs: up to 20; paper: 0)";
    membus_ns = 30.0, "ns", "P: one crossing of the on-chip bus";
    membus_gbytes = 64.0, "GB/s", "A: 512 bits at 1 GHz, one way";
    mmio_ns = 150.0, "ns", "P: posted MMIO write over PCIe (doorbell)";
    dma_read_ns = 500.0, "ns", "P: DMA read over PCIe, of whatever size";
    dma_write_ns = 250.0, "ns", "P: DMA write over PCIe, of whatever size";
    pcie_gbytes = 63.0, "GB/s", "A: PCIe 5.0 x16, 32 GT/s with 128b/130b, one way";
    pcie_payload_bytes = 256.0, "bytes",
        "A: maximum payload of a TLP (Neugebauer et al., SIGCOMM 2018)";
    pcie_header_bytes = 24.0, "bytes", "A: header and framing of a TLP (ibid.)";
    pcie_tags = 64.0, "reads", "A: DMA reads in flight (credits)";
    wqe_bytes = 64.0, "bytes", "P: one work request";
    inline_bytes = 64.0, "bytes", "P: payload that fits into a BlueFlame doorbell";
    cycle_ns = 3.106, "ns", "P: NIC cycle, post-synthesis, 322 MHz";
    flit_bytes = 32.0, "bytes per cycle", "P: NIC data path";
    nic_load_cycles = 8.0, "cycles", "P: one traversal, load/store path (oracle only)";
    nic_urma_cycles = 25.0, "cycles", "P: one traversal, work request path (oracle only)";
    nic_roce_cycles = 9.0, "cycles", "P: one traversal, RoCE (oracle only)";
    nic_rx_cycles = 4.0, "cycles", "P: from wire to decoded header, measured in the paper's bench";
    ub_psn_ns = 5.0, "ns", "P: taking a PSN of a shared TP channel: how long it is occupied";
    roce_psn_ns = 50.0, "ns",
        "P: sequencing of every RoCE work request: 50 in the artifact, 0 in v1 of the paper";
    so_gate_ns = 20.0, "ns",
        "P: strict order at the initiator (oracle only; otherwise the protocol waits)";
    cache_bytes = 262144.0, "bytes", "P: SRAM for contexts";
    qp_bytes = 512.0, "bytes", "P: RoCE queue pair context (half of it is padding)";
    ub_entry_bytes = 128.0, "bytes",
        "P: 2048 entries in 256 KB, Jetties and channels alike (oracle only)";
    jetty_bytes = 20.0, "bytes", "P: Jetty";
    tp_bytes = 56.0, "bytes", "P: TP channel";
    segment_bytes = 32.0, "bytes", "P: segment record (both stacks)";
    ub_refetch_ns = 100.0, "ns", "P: context from local DRAM, bus and DRAM (30 + 70)";
    roce_refetch_ns = 500.0, "ns", "P: context by DMA read";
    dram_ns = 30.0, "ns", "P: DRAM row hit";
    row_miss_ns = 27.5, "ns", "A: precharge and activate, tRP + tRCD of DDR4-3200 (JESD79-4)";
    row_cycle_ns = 45.75, "ns", "A: tRC of DDR4-3200: how long a row miss occupies its bank";
    dram_line_ns = 2.5, "ns", "A: 64 B of a channel of 25.6 GB/s";
    dram_banks = 16.0, "banks", "A: of DDR4";
    row_bytes = 8192.0, "bytes", "A: DDR4 row of a rank of x8 chips";
    ioctl_ns = 5000.0, "ns", "P: a call into the kernel that makes an object (setup)";
    exchange_us = 500.0, "us", "P: an exchange out of band (setup, oracle only)";
    kernel_workers = 32.0, "workers",
        "P: workers of a host that serve such calls at the same time (setup)";
    setup_end_ns = 100.0, "ns", "P: added at the end of a set-up (setup, oracle only)";
    import_calls = 2.0, "calls",
        "P: importing a Jetty and a segment; 0 where imports stay in the library";
    handles_per_message = 1.0, "handles",
        "A: applications whose handles one message requests, where one process requests all (setup)";
    directory_entries = 16384.0, "lines",
        "A: directory of a home (coherent only): 1 MB of lines, as in the middle run of the paper";
    directory_ways = 16.0, "ways", "A: associativity of the directory (coherent only)";
    directory_ns = 10.0, "ns",
        "A: lookup in the directory: SRAM, two lookups of 5 ns (coherent only)";
    directory_hold_ns = 2.0, "ns",
        "A: time until the directory's next lookup: one in two cycles of 1 GHz (coherent only)";
    coherent_header_bytes = 16.0, "bytes", "A: a message without data (coherent only)";
    retrain_us = 1000.0, "us", "P: training of a link after a loss (coherent only)";
    retrain_share = 1.0, "share",
        "P: share of losses after which a link is trained again; the link repeats the others \
         after a round trip (CXL's link-level retry aims at 0)";
    flush_ns = 10.0, "ns",
        "A: an instruction that drops a line from the caches, before the line is read again";
    link_gbps = 400.0, "Gb/s", "P: the wire";
    frame_bytes = 24.0, "bytes",
        "A: preamble, FCS and gap of Ethernet; headers are those of the packet itself";
    port_kbytes = 400.0, "KB",
        "A: buffer of a switch's port to a host (three hosts and more): 100 packets of 4 KB";
    port_mark_kbytes = 80.0, "KB", "A: fill of that buffer from which packets are marked: a fifth";
    recv_bus_ns = 30.0, "ns", "P: SEND: taking a receive";
    recv_cycles = 8.0, "cycles", "P: SEND: likewise";
    dispatch_ns = 200.0, "ns",
        "C: a dispatcher in software hands a message to a member (oracle: every RoCE SEND)";
    serve_ns = 100.0, "ns", "A: a member's handling of a message (fanout)";
    serve_spread = 0.0, "share", "A: share of that time that is exponentially distributed (fanout)";
    rnr_us = 10.0, "us", "A: time after which both engines repeat a SEND that found no receive";
    rto_us = 100.0, "us",
        "A: shortest retransmission time-out of both engines (the paper has none)";
    irn_window = 256.0, "packets",
        "A: how far out of order roce-irn places packets of WRITEs (a power of two)";
    irn_tolerance = 1.0, "packets",
        "P (IRN, SIGCOMM 2018): a NAK for the first packet that arrives too early";
    irn_kept = 256.0, "packets",
        "A: other early packets that the roce-irn NIC keeps until their turn";
    page_fault_ns = 3000.0, "ns", "P: kernel's part of a page fault (Infiniswap)";
    fast_page_fault_ns = 1000.0, "ns", "P: likewise (Fastswap), of the artifact's script";
    page_bytes = 4096.0, "bytes", "P: page";
    resident_pages = 4096.0, "pages",
        "P: local memory of the swap stacks, of the artifact's script";
    readahead_pages = 8.0, "pages", "P: Fastswap's prefetch, of the artifact's script";
    resident_ns = 70.0, "ns", "P: access to a resident page: local DRAM";
}

/// Converts nanoseconds to picoseconds.
pub(crate) fn ps(ns: f64) -> u64 {
    (ns * 1000.0).round() as u64
}

/// Time that `bytes` take at `gbytes` GB/s, in picoseconds.
pub(crate) fn transfer_ps(bytes: f64, gbytes: f64) -> u64 {
    ps(bytes / gbytes)
}
