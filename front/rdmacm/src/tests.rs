use std::ffi::CStr;
use std::fmt::Write as _;
use std::io::Read as _;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::process::Command;

use fairway_rdma::ServiceReservation;
use fairway_wire::roce::cm::{PortSpace, service_id};

use super::abi::*;
use super::address::Address;
use super::id::Options;
use super::port::Port;
use super::{address, clock, cm_device};
use fairway_verbs::guard::Errno;

mod calls;
mod descriptors;

macro_rules! layout {
    ($text:ident, $c:literal, $rust:ty, $($field:ident $(= $name:literal)?),*) => {{
        writeln!($text, "_Static_assert(sizeof({}) == {}, {0:?});", $c, size_of::<$rust>())
            .expect("a string takes it");
        $({
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($field);
            $(name = $name;)?
            let at = offset_of!($rust, $field);
            let what = format!("{}.{name}", $c);
            writeln!($text, "_Static_assert(offsetof({}, {name}) == {at}, {what:?});", $c)
                .expect("a string takes it");
        })*
    }};
}

fn layouts() -> String {
    let mut text = "#include <stddef.h>\n#include <rdma/rdma_cma.h>\n".to_owned();
    layout!(text, "struct rdma_event_channel", rdma_event_channel, fd);
    layout!(text, "struct rdma_ib_addr", rdma_ib_addr, sgid, dgid, pkey);
    layout!(text, "struct rdma_addr", rdma_addr, src_storage, dst_storage, ibaddr = "addr.ibaddr");
    layout!(text, "struct rdma_route", rdma_route, addr, path_rec, num_paths);
    layout!(
        text,
        "struct ibv_sa_path_rec",
        ibv_sa_path_rec,
        dgid,
        sgid,
        dlid,
        slid,
        raw_traffic,
        flow_label,
        hop_limit,
        traffic_class,
        reversible,
        numb_path,
        pkey,
        sl,
        mtu_selector,
        mtu,
        rate_selector,
        rate,
        packet_life_time_selector,
        packet_life_time,
        preference
    );
    layout!(
        text,
        "struct rdma_cm_id",
        rdma_cm_id,
        verbs,
        channel,
        context,
        qp,
        route,
        ps,
        port_num,
        event,
        send_cq_channel,
        send_cq,
        recv_cq_channel,
        recv_cq,
        srq,
        pd,
        qp_type
    );
    event_layouts(&mut text);
    values(&mut text);
    text
}

/// Layouts of events and of addresses by name.
fn event_layouts(text: &mut String) {
    layout!(
        text,
        "struct rdma_conn_param",
        rdma_conn_param,
        private_data,
        private_data_len,
        responder_resources,
        initiator_depth,
        flow_control,
        retry_count,
        rnr_retry_count,
        srq,
        qp_num
    );
    layout!(
        text,
        "struct rdma_ud_param",
        rdma_ud_param,
        private_data,
        private_data_len,
        ah_attr,
        qp_num,
        qkey
    );
    layout!(text, "struct rdma_cm_event", rdma_cm_event, id, listen_id, event, status, param);
    layout!(
        text,
        "struct rdma_addrinfo",
        rdma_addrinfo,
        ai_flags,
        ai_family,
        ai_qp_type,
        ai_port_space,
        ai_src_len,
        ai_dst_len,
        ai_src_addr,
        ai_dst_addr,
        ai_src_canonname,
        ai_dst_canonname,
        ai_route_len,
        ai_route,
        ai_connect_len,
        ai_connect,
        ai_next
    );
}

/// The numbers of the header's enumerations.
fn values(text: &mut String) {
    for (name, value) in [
        ("RDMA_CM_EVENT_CONNECT_REQUEST", RDMA_CM_EVENT_CONNECT_REQUEST),
        ("RDMA_CM_EVENT_REJECTED", RDMA_CM_EVENT_REJECTED),
        ("RDMA_CM_EVENT_TIMEWAIT_EXIT", RDMA_CM_EVENT_TIMEWAIT_EXIT),
        ("RDMA_PS_TCP", RDMA_PS_TCP),
        ("RDMA_PS_UDP", RDMA_PS_UDP),
        ("RDMA_PS_IPOIB", RDMA_PS_IPOIB),
        ("RAI_PASSIVE", RAI_PASSIVE),
        ("RDMA_OPTION_ID_ACK_TIMEOUT", RDMA_OPTION_ID_ACK_TIMEOUT),
        ("RDMA_UDP_QKEY", RDMA_UDP_QKEY as i32),
    ] {
        writeln!(text, "_Static_assert({name} == {value}, {name:?});").expect("a string takes it");
    }
}

#[test]
fn layouts_are_those_of_the_installed_header() {
    let header = Command::new("cc")
        .args(["-xc", "-fsyntax-only", "-include", "rdma/rdma_cma.h", "/dev/null"])
        .output();
    if !header.is_ok_and(|result| result.status.success()) {
        println!("SKIPPED: no C compiler, or librdmacm-dev is not installed");
        return;
    }
    let name = format!("fairway-verbs-cm-layout-{}.c", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, layouts()).expect("the temporary folder can be written");
    let result = Command::new("cc").arg("-fsyntax-only").arg(&file).output().expect("cc runs");
    std::fs::remove_file(&file).expect("it is there");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
}

#[test]
fn socket_addresses_come_back_and_others_are_refused() {
    for text in ["192.0.2.7:80", "[2001:db8::1]:443", "[fe80::1%3]:7", "0.0.0.0:0", "[::]:1"] {
        let given: SocketAddr = text.parse().expect("an address");
        let storage = address::write(given);
        // SAFETY: as long as its family says.
        let read = address::read(unsafe { Address::found((&raw const storage).cast()) });
        assert_eq!(read, Ok(given));
    }
    // This is AF_IB.
    let mut storage = address::write(SocketAddr::from(([127, 0, 0, 1], 1)));
    storage.ss_family = 27;
    // SAFETY: an address of another family, of which only that is read.
    let read = address::read(unsafe { Address::found((&raw const storage).cast()) });
    assert_eq!(read, Err(Errno(libc::EAFNOSUPPORT)));
    assert_eq!(address::read(None), Err(Errno(libc::EINVAL)));
}

#[test]
fn a_port_is_taken_once_per_address_and_space_unless_shared() {
    let [any, one, two] =
        ["0.0.0.0", "127.0.0.1", "127.0.0.2"].map(|ip| ip.parse::<IpAddr>().expect("an address"));
    let take = |space, ip, port, reuse| {
        Port::take(space, SocketAddr::new(ip, port), Options { reuse, ..Options::default() })
    };
    let port = take(PortSpace::Tcp, one, 0, false).expect("there are free ones");
    let number = port.number();
    let again = |ip, shared| take(PortSpace::Tcp, ip, number, shared);
    let in_use = Some(Errno(libc::EADDRINUSE));
    assert_eq!(again(one, false).err(), in_use);
    assert_eq!(again(any, true).err(), in_use);
    let beside = again(two, false).expect("another address");
    let datagrams = take(PortSpace::Udp, one, number, false).expect("another space");
    drop((port, beside));
    let shared = again(any, true).expect("it is free again");
    let both = again(one, true).expect("both may");
    assert_eq!(again(one, false).err(), in_use);
    drop((datagrams, shared, both));
}

#[test]
fn port_that_another_process_has_is_not_chosen() {
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let choose = |start| Port::choose(PortSpace::Tcp, at, Options::default(), start);
    let start = clock::random().expect("a number") >> 1;
    let port = choose(start).expect("there are free ones");
    let number = port.number();
    let service = service_id(PortSpace::Tcp, number);
    assert!(ServiceReservation::new(service).is_err(), "it is chosen for the whole host");
    drop(port);
    let other = ServiceReservation::new(service).expect("it is free again");
    let next = choose(start).expect("there are free ones");
    assert_ne!(next.number(), number);
    drop((next, other));
    let mut again = choose(start).expect("there are free ones");
    assert_eq!(again.number(), number);
    again.connects();
    ServiceReservation::new(service).expect("a port to connect from excludes no listener");
}

#[test]
fn children_of_one_process_draw_different_numbers() {
    // The children inherit the state of a generator that this process has used.
    clock::random().expect("a number");
    let drawn = [(); 2].map(|()| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // SAFETY: the child calls only functions that may be called after a fork of several
        // threads, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let number = clock::random().unwrap_or(0).to_ne_bytes();
            // SAFETY: 8 bytes of ours.
            unsafe { libc::write(writer.as_raw_fd(), number.as_ptr().cast(), 8) };
            // SAFETY: has no conditions.
            unsafe { libc::_exit(0) };
        }
        drop(writer);
        let mut number = [0; 8];
        reader.read_exact(&mut number).expect("the child writes it");
        // SAFETY: the child is ours, and its status is not needed.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        number
    });
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn wildcard_addresses_of_both_families_have_one_port_if_each_is_for_its_family() {
    let take = |ip: &str, port, family_only| {
        let at = SocketAddr::new(ip.parse().expect("an address"), port);
        Port::take(PortSpace::Tcp, at, Options { family_only, ..Options::default() })
    };
    let in_use = Some(Errno(libc::EADDRINUSE));
    let port = take("0.0.0.0", 0, None).expect("there are free ones");
    let number = port.number();
    assert_eq!(take("::", number, None).err(), in_use);
    assert_eq!(take("::", number, Some(false)).err(), in_use);
    let other = take("::", number, Some(true)).expect("IPv4 is for itself by default");
    assert_eq!(take("::", number, Some(true)).err(), in_use);
    assert_eq!(take("0.0.0.0", number, Some(true)).err(), in_use);
    drop(port);
    assert_eq!(take("127.0.0.1", number, Some(false)).err(), in_use);
    let port = take("127.0.0.1", number, Some(true)).expect("the other is for IPv6");
    drop((port, other));
}

#[test]
fn a_port_is_taken_once_per_interface_of_a_link_local_address() {
    let take = |scope, port| {
        let at = address::scoped("fe80::1".parse().expect("an address"), port, scope);
        Port::take(PortSpace::Tcp, at, Options::default())
    };
    let port = take(1, 0).expect("there are free ones");
    assert_eq!(take(1, port.number()).err(), Some(Errno(libc::EADDRINUSE)));
    take(2, port.number()).expect("another interface");
}

#[test]
fn packets_have_a_code() {
    let codes = [256, 512, 1024, 2048, 4096].map(cm_device::mtu_code);
    assert_eq!(codes, [1, 2, 3, 4, 5]);
}

#[test]
fn events_have_names() {
    unsafe extern "C" {
        fn rdma_event_str(event: libc::c_int) -> *const libc::c_char;
    }
    // SAFETY: it takes any number, and what it returns lives as long as the process.
    let name = |event| unsafe { CStr::from_ptr(rdma_event_str(event)) }.to_str();
    assert_eq!(name(RDMA_CM_EVENT_ESTABLISHED), Ok("RDMA_CM_EVENT_ESTABLISHED"));
    assert_eq!(name(15), Ok("RDMA_CM_EVENT_TIMEWAIT_EXIT"));
    assert_eq!(name(99), Ok("UNKNOWN EVENT"));
}
