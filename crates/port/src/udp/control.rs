//! Ancillary data beside a packet's bytes: segment size, congestion bits, timestamps, and the local
//! address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fairway_wire::Ecn;

use crate::udp::address::Address;
use crate::udp::train::Train;

/// A buffer for ancillary data, aligned as the kernel requires.
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; Control::BYTES],
    len: usize,
}

impl Control {
    /// Size of the buffer: more than all requested messages need.
    const BYTES: usize = 192;

    pub(super) const fn new() -> Self {
        Control { bytes: [0; Self::BYTES], len: 0 }
    }

    /// Requests that the kernel cut the bytes into segments of `size`.
    pub(super) fn push_segment_size(&mut self, size: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, size);
    }

    /// Sets the congestion bits and the code point of the packets of this call, unless they are
    /// those of the socket: ECN-capable, and best effort.
    #[inline]
    pub(super) fn push_traffic_class(&mut self, ipv6: bool, train: &Train) {
        if train.ecn() == Ecn::Capable && train.dscp() == 0 {
            return;
        }
        let bits = libc::c_int::from(train.dscp()) << 2 | ecn_bits(train.ecn());
        if ipv6 {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, bits);
        } else {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, bits);
        }
    }

    /// Makes the packets of this call leave from the local address that `to`, in the form that the
    /// socket requires, names, if it names one.
    #[inline]
    pub(super) fn push_source(&mut self, to: &Address) {
        if let Some(local) = to.local() {
            self.push_local(to.is_ipv6(), local);
        }
    }

    #[cold]
    fn push_local(&mut self, ipv6: bool, local: IpAddr) {
        match local {
            IpAddr::V4(local) if !ipv6 => {
                let source = libc::in_addr { s_addr: u32::from_ne_bytes(local.octets()) };
                let any = libc::in_addr { s_addr: 0 };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            // Packets over IPv4 have no source address of IPv6.
            IpAddr::V6(_) if !ipv6 => {}
            local => {
                let octets = match local {
                    IpAddr::V4(local) => local.to_ipv6_mapped().octets(),
                    IpAddr::V6(local) => local.octets(),
                };
                let source = libc::in6_addr { s6_addr: octets };
                let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
    }

    /// Makes `message` refer to the data that was pushed.
    pub(super) fn attach(&mut self, message: &mut libc::msghdr) {
        if self.len > 0 {
            message.msg_control = self.bytes.as_mut_ptr().cast();
            message.msg_controllen = self.len as _;
        }
    }

    /// Makes the kernel fill this buffer when `message` is received.
    pub(super) fn offer(&mut self, message: &mut libc::msghdr) {
        message.msg_control = self.bytes.as_mut_ptr().cast();
        message.msg_controllen = Self::BYTES as _;
    }

    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute sizes.
        let (space, len) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        // SAFETY: as above.
        let data_offset = unsafe { libc::CMSG_LEN(0) } as usize;
        assert!(self.len + space as usize <= Self::BYTES, "ancillary data overflows");
        // SAFETY: the message fits, checked above; `self` is aligned to 8 and every space is a
        // multiple of 8, so the header is aligned; the value is written unaligned.
        unsafe {
            let base = self.bytes.as_mut_ptr().add(self.len);
            let mut header: libc::cmsghdr = std::mem::zeroed();
            header.cmsg_len = len as _;
            header.cmsg_level = level;
            header.cmsg_type = kind;
            base.cast::<libc::cmsghdr>().write(header);
            base.add(data_offset).cast::<T>().write_unaligned(value);
        }
        self.len += space as usize;
    }
}

/// The ancillary data of an arrival.
#[derive(Clone, Copy, Default)]
pub(super) struct Noted {
    /// Size of the segments that the kernel coalesced; zero if it coalesced none.
    pub(super) segment_size: usize,
    pub(super) ecn: Ecn,
    /// Time at which the kernel received it, in nanoseconds of its real-time clock; zero if there
    /// is no timestamp.
    pub(super) stamped_ns: u64,
    /// The local address to which it was sent, if the socket reports it.
    pub(super) local: Option<IpAddr>,
}

/// Parses the ancillary data that the kernel attached to `message`.
pub(super) fn read(message: &libc::msghdr) -> Noted {
    let mut noted = Noted::default();
    // SAFETY: `message` was filled by a successful recvmsg and still points at the control buffer
    // it was given; the CMSG macros walk it within msg_controllen.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: not null, so it points at a whole header within the control buffer.
        let header = unsafe { &*next };
        // SAFETY: data follows its header; `read_unaligned` below reads only sizes that the kernel
        // documents for the option, after the length was compared.
        let data = unsafe { libc::CMSG_DATA(next) };
        // SAFETY: CMSG_LEN only computes a size.
        let len = (header.cmsg_len as usize).saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) if len >= size_of::<libc::c_int>() => {
                // SAFETY: at least four bytes of data.
                let size = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                noted.segment_size = usize::try_from(size).unwrap_or(0);
            }
            // The value is a byte for IPv4; for IPv6 it is an int, whose bits are read in either
            // byte order.
            (libc::IPPROTO_IP, libc::IP_TOS) if len >= 1 => {
                // SAFETY: at least one byte of data.
                noted.ecn = ecn_from_bits(unsafe { data.read() }.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if len >= size_of::<libc::c_int>() => {
                // SAFETY: at least four bytes of data.
                noted.ecn = ecn_from_bits(unsafe { data.cast::<libc::c_int>().read_unaligned() });
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if len >= size_of::<libc::timespec>() => {
                // SAFETY: at least as many bytes as the structure has, all of whose bits are
                // values.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                noted.stamped_ns = seconds.wrapping_mul(1_000_000_000) + time.tv_nsec as u64;
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if len >= size_of::<libc::in_pktinfo>() => {
                // SAFETY: at least as many bytes as the structure has, all of whose bits are
                // values.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                noted.local = Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if len >= size_of::<libc::in6_pktinfo>() => {
                // SAFETY: as above.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                let local = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                // Only together with a link does a link-local one name a source.
                noted.local = (!local.is_unicast_link_local()).then_some(local.into());
            }
            _ => {}
        }
        // SAFETY: `next` came from this same message.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    noted
}

/// The two low bits of the traffic class, as a socket option or ancillary value.
pub(crate) const fn ecn_bits(ecn: Ecn) -> libc::c_int {
    match ecn {
        Ecn::NotCapable => 0b00,
        // ECT(0) is used, because ECT(1) has another meaning (L4S) for switches that support it.
        Ecn::Capable => 0b10,
        Ecn::Congested => 0b11,
    }
}

pub(crate) const fn ecn_from_bits(traffic_class: libc::c_int) -> Ecn {
    match traffic_class & 0b11 {
        0b00 => Ecn::NotCapable,
        0b11 => Ecn::Congested,
        _ => Ecn::Capable,
    }
}
