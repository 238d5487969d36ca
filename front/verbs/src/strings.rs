//! Names of enumeration values, and data rates.

use libc::{c_char, c_int};

/// The text for a number of an enumeration; "unknown" if it has none.
fn named(texts: &[&'static std::ffi::CStr], number: c_int) -> *const c_char {
    let known = usize::try_from(number).ok().and_then(|number| texts.get(number));
    known.map_or(c"unknown", |text| *text).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_node_type_str(kind: c_int) -> *const c_char {
    const TEXTS: &[&std::ffi::CStr] = &[
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    named(TEXTS, kind)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    const TEXTS: &[&std::ffi::CStr] =
        &[c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    if (0..TEXTS.len() as c_int).contains(&state) {
        return named(TEXTS, state);
    }
    c"invalid state".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    const TEXTS: &[&std::ffi::CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    named(TEXTS, event)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    const TEXTS: &[&std::ffi::CStr] = &[
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    named(TEXTS, status)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wr_opcode_str(opcode: c_int) -> *const c_char {
    const TEXTS: &[&std::ffi::CStr] = &[
        c"IBV_WR_RDMA_WRITE",
        c"IBV_WR_RDMA_WRITE_WITH_IMM",
        c"IBV_WR_SEND",
        c"IBV_WR_SEND_WITH_IMM",
        c"IBV_WR_RDMA_READ",
        c"IBV_WR_ATOMIC_CMP_AND_SWP",
        c"IBV_WR_ATOMIC_FETCH_AND_ADD",
        c"IBV_WR_LOCAL_INV",
        c"IBV_WR_BIND_MW",
        c"IBV_WR_SEND_WITH_INV",
        c"IBV_WR_TSO",
        c"IBV_WR_DRIVER1",
    ];
    named(TEXTS, opcode)
}

/// Rates by `ibv_rate`: the number, multiples of 2.5 Gbit/s (-1 if it is not a multiple), Mbit/s.
const RATES: &[(c_int, c_int, c_int)] = &[
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 5, 14_062),
    (12, 22, 56_250),
    (13, 45, 112_500),
    (14, 67, 168_750),
    (15, 10, 25_781),
    (16, 41, 103_125),
    (17, 82, 206_250),
    (18, 124, 309_375),
    (19, 11, 28_125),
    (20, 20, 53_125),
    (21, 160, 425_000),
    (22, 240, 637_500),
    (23, 320, 850_000),
    (24, 480, 1_275_000),
];

const RATE_MAX: c_int = 0;

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|row| row.0 == rate).map_or(-1, |row| row.1)
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    RATES.iter().find(|row| row.1 == multiple).map_or(RATE_MAX, |row| row.0)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|row| row.0 == rate).map_or(-1, |row| row.2)
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(megabits: c_int) -> c_int {
    RATES.iter().find(|row| row.2 == megabits).map_or(RATE_MAX, |row| row.0)
}
