//! Address handles.

use std::sync::Arc;

use fairway_rdma::{Gid, Provider};
use libc::c_int;

use crate::abi::*;
use crate::device::Context;
use crate::device_state::DeviceState;
use crate::guard::{EINVAL, Result, number, object, status};
use crate::memory::Member;
use crate::pointer::{Array, Handle, Last, Out, Ptr};
use crate::query;

/// Object behind an `ibv_ah` that a program holds.
#[repr(C)]
pub struct AddressHandle {
    base: ibv_ah,
    /// The provider's identifier of the address.
    pub(crate) address: u64,
    _member: Member,
}

// SAFETY: `create` makes every `ibv_ah`, as the first field of a boxed `AddressHandle`.
unsafe impl Handle for ibv_ah {
    type Object = AddressHandle;
}

impl AddressHandle {
    /// Refuses an address of another device.
    pub(crate) fn check_device(&self, of: &Arc<DeviceState>) -> Result<()> {
        // SAFETY: a program closes a context after the last use of what it has made of it.
        let context: Ptr<'_, ibv_context> = unsafe { Ptr::kept(self.base.context) };
        if Arc::ptr_eq(&context.object().device_state, of) { Ok(()) } else { Err(EINVAL) }
    }
}

/// Returns the provider's identifier of the address that an address vector describes.
pub(crate) fn resolve(
    context: &Context,
    provider: &Arc<dyn Provider>,
    attr: &ibv_ah_attr,
) -> Result<u64> {
    // RoCE has no LIDs, so the address must be a GID.
    if attr.is_global == 0 || attr.port_num != 1 {
        return Err(EINVAL);
    }
    query::gid(context.device(), usize::from(attr.grh.sgid_index))?;
    let to = Gid(attr.grh.dgid.raw());
    if to.ip().is_unspecified() || to.ip().is_multicast() {
        return Err(EINVAL);
    }
    Ok(provider.resolve(to)?)
}

fn create(pd: Ptr<'_, ibv_pd>, attr: &ibv_ah_attr) -> Result<*mut ibv_ah> {
    let context = pd.object().context();
    let owner = context.object();
    let address = resolve(owner, owner.device_state.provider()?, attr)?;
    let handle = owner.device_state.number();
    let base = ibv_ah { context: context.raw(), pd: pd.raw(), handle };
    Ok(ibv_ah::give(Box::new(AddressHandle { base, address, _member: pd.object().member() })))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah(pd: Ptr<'_, ibv_pd>, attr: &ibv_ah_attr) -> *mut ibv_ah {
    object(|| create(pd, attr))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_ah(ah: Last<'_, ibv_ah>) -> c_int {
    status(|| {
        drop(ah.take());
        Ok(())
    })
}

/// Sender, receiver and traffic class of a datagram. Its first 40 bytes are an IPv6 header, or 20
/// bytes without meaning and an IPv4 header.
fn ends(header: &[u8; 40]) -> Option<(Gid, Gid, u8)> {
    let ipv4 = &header[20..];
    let part = |from: usize| -> [u8; 4] { std::array::from_fn(|at| ipv4[from + at]) };
    let whole = |from: usize| -> [u8; 16] { std::array::from_fn(|at| header[from + at]) };
    let sum: u32 =
        ipv4.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let intact = (sum & 0xffff) + (sum >> 16) == 0xffff;
    let six = header[0] >> 4 == 6;
    // The bytes in front of an IPv4 header may look like the beginning of an IPv6 header.
    if ipv4[0] == 0x45 && (intact || !six) {
        let from = std::net::IpAddr::from(part(12));
        let to = std::net::IpAddr::from(part(16));
        return Some((from.into(), to.into(), ipv4[1]));
    }
    let class = header[0] << 4 | header[1] >> 4;
    six.then(|| (Gid(whole(8)), Gid(whole(24)), class))
}

/// Address attributes for a reply to a received datagram, from its completion and the header in
/// front of its payload.
fn way_back(context: &Context, port: u8, wc: &ibv_wc, grh: Array<'_, u8>) -> Result<ibv_ah_attr> {
    if port != 1 || wc.wc_flags & IBV_WC_GRH == 0 {
        return Err(EINVAL);
    }
    // SAFETY: the completion says that there is a header.
    let header = unsafe { grh.elements(size_of::<ibv_grh>()) }.first_chunk().ok_or(EINVAL)?;
    let (from, to, traffic_class) = ends(header).ok_or(EINVAL)?;
    let index = query::gids(context.device()).position(|gid| gid == to).ok_or(EINVAL)?;
    let grh = ibv_global_route {
        dgid: ibv_gid::new(from.0),
        flow_label: 0,
        sgid_index: index as u8,
        hop_limit: 0xff,
        traffic_class,
    };
    Ok(ibv_ah_attr {
        grh,
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        static_rate: 0,
        is_global: 1,
        port_num: port,
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_init_ah_from_wc(
    context: Ptr<'_, ibv_context>,
    port: u8,
    wc: &ibv_wc,
    grh: Array<'_, u8>,
    attr: Out<'_, ibv_ah_attr>,
) -> c_int {
    number(|| {
        attr.write(way_back(context.object(), port, wc, grh)?);
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah_from_wc(
    pd: Ptr<'_, ibv_pd>,
    wc: &ibv_wc,
    grh: Array<'_, u8>,
    port: u8,
) -> *mut ibv_ah {
    object(|| create(pd, &way_back(pd.object().context().object(), port, wc, grh)?))
}

/// Returns the device's own hardware address for a GID. The provider routes by IP, so this suffices
/// for programs that only display the address.
#[unsafe(no_mangle)]
extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: Ptr<'_, ibv_context>,
    attr: &ibv_ah_attr,
    mac: Out<'_, [u8; 6]>,
    vlan: Option<Out<'_, u16>>,
) -> c_int {
    const NO_VLAN: u16 = 0xffff;
    number(|| {
        let owner = context.object();
        resolve(owner, owner.device_state.provider()?, attr)?;
        mac.write(owner.device().device.hardware);
        if let Some(vlan) = vlan {
            vlan.write(NO_VLAN);
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
