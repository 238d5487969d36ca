//! Address handles.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: objects were made by the calls here and are destroyed once, after their last use.

use std::sync::Arc;

use fairway_rdma::{Carrier, Gid};
use libc::c_int;

use crate::abi::*;
use crate::device::Context;
use crate::guard::{EINVAL, Result, number, object, status};
use crate::query;

/// An address handle as programs hold it.
#[repr(C)]
pub(crate) struct AddressHandle {
    base: ibv_ah,
    /// The carrier's number for the address.
    pub(crate) address: u64,
}

impl AddressHandle {
    /// All `ibv_ah` are ours.
    pub(crate) fn of(ah: &ibv_ah) -> &AddressHandle {
        unsafe { &*(&raw const *ah).cast::<AddressHandle>() }
    }
}

/// The carrier's number for the address that an address vector leads to.
pub(crate) fn resolve(
    context: &Context,
    carrier: &Arc<dyn Carrier>,
    attr: &ibv_ah_attr,
) -> Result<u64> {
    // With RoCE a LID is no address: there has to be a GID.
    if attr.is_global == 0 || attr.port_num != 1 {
        return Err(EINVAL);
    }
    query::gid(context.device(), usize::from(attr.grh.sgid_index))?;
    let to = Gid(attr.grh.dgid.raw());
    if to.ip().is_unspecified() || to.ip().is_multicast() {
        return Err(EINVAL);
    }
    Ok(carrier.resolve(to)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    object(|| {
        let context = unsafe { (*pd).context };
        let owner = unsafe { Context::of(context) };
        let address = resolve(owner, owner.device_state.carrier()?, unsafe { &*attr })?;
        let base = ibv_ah { context, pd, handle: owner.device_state.number() };
        Ok(Box::into_raw(Box::new(AddressHandle { base, address })).cast())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    status(|| {
        drop(unsafe { Box::from_raw(ah.cast::<AddressHandle>()) });
        Ok(())
    })
}

/// Sender, receiver and traffic class of a datagram: its first 40 bytes are an IPv6 header, or 20
/// bytes that mean nothing and an IPv4 header.
fn ends(header: &[u8; 40]) -> Option<(Gid, Gid, u8)> {
    let ipv4 = &header[20..];
    let part = |from: usize| -> [u8; 4] { std::array::from_fn(|at| ipv4[from + at]) };
    let whole = |from: usize| -> [u8; 16] { std::array::from_fn(|at| header[from + at]) };
    let sum: u32 =
        ipv4.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let intact = (sum & 0xffff) + (sum >> 16) == 0xffff;
    let six = header[0] >> 4 == 6;
    // What stands before an IPv4 header may look like the beginning of an IPv6 header.
    if ipv4[0] == 0x45 && (intact || !six) {
        let from = std::net::IpAddr::from(part(12));
        let to = std::net::IpAddr::from(part(16));
        return Some((from.into(), to.into(), ipv4[1]));
    }
    let class = header[0] << 4 | header[1] >> 4;
    six.then(|| (Gid(whole(8)), Gid(whole(24)), class))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    number(|| {
        let (wc, device) = unsafe { (&*wc, Context::of(context).device()) };
        if port != 1 || wc.wc_flags & IBV_WC_GRH == 0 {
            return Err(EINVAL);
        }
        let header = unsafe { grh.cast::<[u8; 40]>().read_unaligned() };
        let (from, to, traffic_class) = ends(&header).ok_or(EINVAL)?;
        let index = query::gids(device).position(|gid| gid == to).ok_or(EINVAL)?;
        let grh = ibv_global_route {
            dgid: ibv_gid::new(from.0),
            flow_label: 0,
            sgid_index: index as u8,
            hop_limit: 0xff,
            traffic_class,
        };
        let result = ibv_ah_attr {
            grh,
            dlid: wc.slid,
            sl: wc.sl,
            src_path_bits: wc.dlid_path_bits,
            static_rate: 0,
            is_global: 1,
            port_num: port,
        };
        unsafe { attr.write(result) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    // SAFETY: numbers.
    let mut attr: ibv_ah_attr = unsafe { zeroed() };
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port, wc, grh, &mut attr) != 0 {
            return std::ptr::null_mut();
        }
        ibv_create_ah(pd, &mut attr)
    }
}

/// The hardware address behind a GID: the carrier finds its way by IP, so the device's own will do
/// for programs that only show it.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    mac: *mut u8,
    vlan: *mut u16,
) -> c_int {
    const NO_VLAN: u16 = 0xffff;
    number(|| {
        let owner = unsafe { Context::of(context) };
        resolve(owner, owner.device_state.carrier()?, unsafe { &*attr })?;
        unsafe {
            mac.cast::<[u8; 6]>().write(owner.device().device.hardware);
            if !vlan.is_null() {
                vlan.write(NO_VLAN);
            }
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header from 192.0.2.1 to 192.0.2.2, with traffic class 3.
    fn ipv4() -> [u8; 20] {
        let mut header = [0; 20];
        header[..2].copy_from_slice(&[0x45, 3]);
        header[8..10].copy_from_slice(&[64, 17]);
        header[12..].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        let sum: u32 = header
            .chunks_exact(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn gid(text: &str) -> Gid {
        text.parse::<std::net::IpAddr>().expect("an address").into()
    }

    #[test]
    fn the_ends_of_a_datagram_are_found() {
        let expected = Some((gid("192.0.2.1"), gid("192.0.2.2"), 3));
        for garbage in [0, 0x60, 0xff] {
            let mut header = [garbage; 40];
            header[20..].copy_from_slice(&ipv4());
            assert_eq!(ends(&header), expected, "{garbage}");
        }
        let mut header = [0; 40];
        (header[0], header[1]) = (0x60, 0x70);
        header[8..24].copy_from_slice(&gid("2001:db8::1").0);
        header[24..].copy_from_slice(&gid("2001:db8::2").0);
        assert_eq!(ends(&header), Some((gid("2001:db8::1"), gid("2001:db8::2"), 7)));
        assert_eq!(ends(&[0; 40]), None);
    }
}
