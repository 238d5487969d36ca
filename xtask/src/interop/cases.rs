//! The programs that run between a guest and the host, with their arguments.

/// A side of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The guest, whose kernel implements RoCE.
    Guest,
    /// The host.
    Here,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Guest => Side::Here,
            Side::Here => Side::Guest,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Side::Guest => "the kernel",
            Side::Here => "Fairway",
        }
    }
}

/// A program that runs on both sides. In its arguments `{gid}`, `{own}`, `{own6}` are the side's
/// GID index and addresses, `{server}` is the address of the listening side, and `{exchange}` this
/// repository's own program.
pub struct Case {
    pub name: &'static str,
    pub server: &'static str,
    pub client: &'static str,
    /// TCP port at which the server listens, if it does.
    pub port: Option<u16>,
    /// Texts by which the program reports an error, although it ends with success.
    pub bad: &'static [&'static str],
    /// Whether the program ends although packets are lost.
    pub recovers: bool,
}

const fn pingpong(name: &'static str, server: &'static str, client: &'static str) -> Case {
    Case { name, server, client, port: Some(18515), bad: &["invalid data"], recovers: true }
}

/// A program that uses an unreliable service, and waits for lost messages.
const fn unreliable(name: &'static str, server: &'static str, client: &'static str) -> Case {
    Case { recovers: false, ..pingpong(name, server, client) }
}

const fn perftest(name: &'static str, server: &'static str, client: &'static str) -> Case {
    Case {
        name,
        server,
        client,
        port: Some(18515),
        bad: &["Completion with error"],
        recovers: true,
    }
}

const fn manager(name: &'static str, server: &'static str, client: &'static str) -> Case {
    Case { name, server, client, port: None, bad: &["mismatch", "verify"], recovers: true }
}

const fn bytes(name: &'static str, server: &'static str, client: &'static str) -> Case {
    Case { name, server, client, port: Some(18600), bad: &[], recovers: true }
}

/// All cases. They are short, because the guest is emulated.
pub const CASES: &[Case] = &[
    bytes(
        "exchange",
        "{exchange} -a {own} -n 140 -l 65536",
        "{exchange} -a {own} -n 140 -l 65536 {server}",
    ),
    bytes(
        "exchange, events",
        "{exchange} -a {own} -n 70 -l 65536 -e -s 2",
        "{exchange} -a {own} -n 70 -l 65536 -e -s 2 {server}",
    ),
    bytes(
        "exchange, long",
        "{exchange} -a {own} -n 35 -l 1048576 -s 3",
        "{exchange} -a {own} -n 35 -l 1048576 -s 3 {server}",
    ),
    bytes(
        "exchange, MTU 256",
        "{exchange} -a {own} -n 70 -l 65536 -m 256 -s 4",
        "{exchange} -a {own} -n 70 -l 65536 -m 256 -s 4 {server}",
    ),
    bytes(
        "exchange, IPv6",
        "{exchange} -a {own6} -n 70 -l 65536 -s 5",
        "{exchange} -a {own6} -n 70 -l 65536 -s 5 {server}",
    ),
    pingpong(
        "ibv_rc_pingpong",
        "ibv_rc_pingpong -g {gid} -c -n 50 -s 65536",
        "ibv_rc_pingpong -g {gid} -c -n 50 -s 65536 {server}",
    ),
    pingpong(
        "ibv_rc_pingpong -e",
        "ibv_rc_pingpong -g {gid} -c -e -n 50",
        "ibv_rc_pingpong -g {gid} -c -e -n 50 {server}",
    ),
    unreliable(
        "ibv_uc_pingpong",
        "ibv_uc_pingpong -g {gid} -c -n 50",
        "ibv_uc_pingpong -g {gid} -c -n 50 {server}",
    ),
    unreliable(
        "ibv_ud_pingpong",
        "ibv_ud_pingpong -g {gid} -c -s 1024 -n 50",
        "ibv_ud_pingpong -g {gid} -c -s 1024 -n 50 {server}",
    ),
    pingpong(
        "ibv_srq_pingpong",
        "ibv_srq_pingpong -g {gid} -c -n 50",
        "ibv_srq_pingpong -g {gid} -c -n 50 {server}",
    ),
    perftest(
        "ib_write_bw",
        "ib_write_bw -x {gid} -F -s 65536 -n 100",
        "ib_write_bw -x {gid} -F -s 65536 -n 100 {server}",
    ),
    perftest(
        "ib_read_bw",
        "ib_read_bw -x {gid} -F -s 65536 -n 100",
        "ib_read_bw -x {gid} -F -s 65536 -n 100 {server}",
    ),
    perftest(
        "ib_send_bw",
        "ib_send_bw -x {gid} -F -s 65536 -n 100",
        "ib_send_bw -x {gid} -F -s 65536 -n 100 {server}",
    ),
    perftest(
        "ib_atomic_bw",
        "ib_atomic_bw -x {gid} -F -n 100",
        "ib_atomic_bw -x {gid} -F -n 100 {server}",
    ),
    perftest(
        "ib_write_lat",
        "ib_write_lat -x {gid} -F -n 200",
        "ib_write_lat -x {gid} -F -n 200 {server}",
    ),
    perftest(
        "ib_send_lat",
        "ib_send_lat -x {gid} -F -n 200",
        "ib_send_lat -x {gid} -F -n 200 {server}",
    ),
    manager("rping", "rping -s -V -C 20 -a 0.0.0.0", "rping -c -a {server} -V -C 20"),
    manager("ucmatose", "ucmatose", "ucmatose -s {server}"),
    Case { recovers: false, ..manager("udaddy", "udaddy", "udaddy -s {server}") },
];
