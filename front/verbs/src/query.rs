//! Attributes of a device and its port.

use std::time::{SystemTime, UNIX_EPOCH};

use fairway_rdma::{Gid, ProviderKind};
use fairway_roce::{READ_DEPTH_MAX, SGE_MAX};
use libc::c_int;

use crate::abi::*;
use crate::device::DeviceHandle;
use crate::guard::{EINVAL, Errno, Result, number, status};
use crate::pointer::{Array, Out, Ptr};
use crate::settings;

/// Largest number of bytes of inline data in a send.
pub(crate) const INLINE_MAX: u32 = 1024;

/// Largest number of sends or of receives in a queue.
pub(crate) const DEPTH_MAX: u32 = 16_384;

/// Largest number of entries in a completion queue.
pub(crate) const COMPLETIONS_MAX: u32 = 1 << 20;

/// The partition key of every port.
pub(crate) const DEFAULT_PARTITION: u16 = 0xffff;

/// GIDs of a device, one for each of its addresses.
pub(crate) fn gids(device: &DeviceHandle) -> impl ExactSizeIterator<Item = Gid> + '_ {
    device.device.addresses.iter().map(|address| Gid::from(*address))
}

pub(crate) fn gid(device: &DeviceHandle, index: usize) -> Result<Gid> {
    gids(device).nth(index).ok_or(EINVAL)
}

fn device_attr(device: &DeviceHandle) -> ibv_device_attr {
    let mut attr: ibv_device_attr = zeroed();
    let limits = settings::kind(&settings::environment).unwrap_or(ProviderKind::Roce).limits();
    for (to, from) in attr.fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
        *to = from as libc::c_char;
    }
    let guid = device.device.guid().to_be();
    (attr.node_guid, attr.sys_image_guid) = (guid, guid);
    attr.max_mr_size = u64::MAX;
    // Every page size from 4 KiB up is accepted.
    attr.page_size_cap = !0xfff;
    // No vendor's id; soft-RoCE uses this number, too.
    attr.vendor_id = 0xff_ffff;
    attr.max_qp = limits.queue_pairs as c_int;
    attr.max_qp_wr = DEPTH_MAX as c_int;
    attr.device_cap_flags = IBV_DEVICE_BAD_QKEY_CNTR
        | IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN;
    (attr.max_sge, attr.max_sge_rd) = (SGE_MAX as c_int, SGE_MAX as c_int);
    attr.max_cq = limits.completion_queues as c_int;
    attr.max_cqe = COMPLETIONS_MAX as c_int;
    attr.max_mr = limits.regions as c_int;
    attr.max_pd = 0x7fff_ffff;
    let read_depth = c_int::from(READ_DEPTH_MAX);
    (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom) = (read_depth, read_depth);
    attr.max_res_rd_atom = read_depth * attr.max_qp;
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_ah = 0x7fff_ffff;
    attr.max_srq = limits.receive_queues as c_int;
    attr.max_srq_wr = DEPTH_MAX as c_int;
    attr.max_srq_sge = SGE_MAX as c_int;
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
    attr
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_query_device(
    context: Ptr<'_, ibv_context>,
    attr: Out<'_, ibv_device_attr>,
) -> c_int {
    status(|| {
        attr.write(device_attr(context.object().device()));
        Ok(())
    })
}

pub(crate) extern "C" fn query_device_ex(
    context: Ptr<'_, ibv_context>,
    input: Option<&u32>,
    attr: Out<'_, ibv_device_attr_ex>,
    size: usize,
) -> c_int {
    status(|| {
        // The only field is a mask, of which no bit is known.
        if input.is_some_and(|mask| *mask != 0) {
            return Err(EINVAL);
        }
        if size < size_of::<ibv_device_attr>() {
            return Err(EINVAL);
        }
        let context = context.object();
        let mut whole: ibv_device_attr_ex = zeroed();
        whole.orig_attr = device_attr(context.device());
        whole.device_cap_flags_ex = u64::from(whole.orig_attr.device_cap_flags);
        // Time stamps are nanoseconds of the monotonic clock.
        whole.completion_timestamp_mask = u64::MAX >> 1;
        whole.hca_core_clock = 1_000_000;
        whole.phys_port_cnt_ex = 1;
        // SAFETY: `size` is the size of the program's struct.
        unsafe { attr.write_prefix(&whole, size) };
        Ok(())
    })
}

/// The nearest speed that InfiniBand defines, in units of 2.5 Gbit/s per lane, and the lane width.
fn rate(speed_mbps: u32) -> (u8, u8) {
    const SPEED_10: u8 = 4;
    const SPEED_25: u8 = 32;
    const SPEED_2_5: u8 = 1;
    match speed_mbps {
        ..5_000 => (SPEED_2_5, 1),
        5_000..20_000 => (SPEED_10, 1),
        20_000..30_000 => (SPEED_25, 1),
        30_000..45_000 => (SPEED_10, 2),
        45_000..80_000 => (SPEED_25, 16),
        _ => (SPEED_25, 2),
    }
}

fn port_attr(device: &DeviceHandle) -> ibv_port_attr {
    let mut attr: ibv_port_attr = zeroed();
    let running = device.device.running;
    attr.state = if running { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN };
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = mtu_code(device.device.mtu());
    attr.gid_tbl_len = gids(device).len() as c_int;
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr.max_msg_sz = 1 << 30;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    (attr.active_speed, attr.active_width) = rate(device.device.port_mbps());
    // 5 is LinkUp, 3 is disabled.
    attr.phys_state = if running { 5 } else { 3 };
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr.flags = IBV_QPF_GRH_REQUIRED;
    attr.active_speed_ex = u32::from(attr.active_speed);
    attr
}

/// Number of `enum ibv_mtu` for the payload bytes of a packet.
pub(crate) fn mtu_code(bytes: u32) -> c_int {
    match bytes {
        4096.. => 5,
        2048.. => 4,
        1024.. => 3,
        512.. => 2,
        _ => 1,
    }
}

pub(crate) extern "C" fn query_port(
    context: Ptr<'_, ibv_context>,
    port: u8,
    attr: Out<'_, ibv_port_attr>,
    size: usize,
) -> c_int {
    status(|| {
        if port != 1 {
            return Err(EINVAL);
        }
        let whole = port_attr(context.object().device());
        // SAFETY: `size` is the size of the program's struct.
        unsafe { attr.write_prefix(&whole, size) };
        Ok(())
    })
}

/// For programs older than `verbs_context::query_port`, whose struct has 48 bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_query_port(
    context: Ptr<'_, ibv_context>,
    port: u8,
    attr: Out<'_, ibv_port_attr>,
) -> c_int {
    query_port(context, port, attr, 48)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_port_speed(
    context: Ptr<'_, ibv_context>,
    port: u32,
    speed: Out<'_, u64>,
) -> c_int {
    status(|| {
        if port != 1 {
            return Err(EINVAL);
        }
        let device = context.object().device();
        // In units of 100 Mbit/s.
        let megabits = u64::from(device.device.port_mbps());
        speed.write(megabits / 100);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_gid(
    context: Ptr<'_, ibv_context>,
    port: u8,
    index: c_int,
    result: Out<'_, ibv_gid>,
) -> c_int {
    number(|| {
        let device = context.object().device();
        let index = usize::try_from(index).ok().filter(|_| port == 1).ok_or(EINVAL)?;
        result.write(ibv_gid::new(gid(device, index)?.0));
        Ok(0)
    })
}

fn entry(device: &DeviceHandle, index: usize) -> Result<ibv_gid_entry> {
    Ok(ibv_gid_entry {
        gid: ibv_gid::new(gid(device, index)?.0),
        gid_index: index as u32,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: device.device.index,
    })
}

#[unsafe(no_mangle)]
extern "C" fn _ibv_query_gid_ex(
    context: Ptr<'_, ibv_context>,
    port: u32,
    index: u32,
    result: Out<'_, ibv_gid_entry>,
    flags: u32,
    size: usize,
) -> c_int {
    status(|| {
        if port != 1 || flags != 0 {
            return Err(EINVAL);
        }
        let device = context.object().device();
        let entry = entry(device, index as usize).map_err(|_| Errno(libc::ENODATA))?;
        // SAFETY: `size` is the size of the program's struct.
        unsafe { result.write_prefix(&entry, size) };
        Ok(())
    })
}

/// Writes the GID table. Returns the number of entries, or a negative error number.
#[unsafe(no_mangle)]
extern "C" fn _ibv_query_gid_table(
    context: Ptr<'_, ibv_context>,
    entries: Array<'_, u8>,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    if flags != 0 {
        return -(libc::EINVAL as isize);
    }
    let device = context.object().device();
    let count = gids(device).len();
    if room < count {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: the program has room for `room` structs of its own, of this size.
    let places = unsafe { entries.room(count * size) };
    for (index, place) in places.chunks_exact_mut(size.max(1)).enumerate() {
        let Ok(entry) = entry(device, index) else { return -(libc::EIO as isize) };
        // SAFETY: as above.
        unsafe { Out::at(place).write_prefix(&entry, size) };
    }
    count as isize
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_gid_type(
    context: Ptr<'_, ibv_context>,
    port: u8,
    index: u32,
    kind: Out<'_, c_int>,
) -> c_int {
    number(|| {
        let device = context.object().device();
        gid(device, index as usize).ok().filter(|_| port == 1).ok_or(EINVAL)?;
        kind.write(IBV_GID_TYPE_SYSFS_ROCE_V2);
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_pkey(
    _context: Ptr<'_, ibv_context>,
    port: u8,
    index: c_int,
    key: Out<'_, u16>,
) -> c_int {
    number(|| {
        if (port, index) != (1, 0) {
            return Err(EINVAL);
        }
        key.write(DEFAULT_PARTITION.to_be());
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(_context: Ptr<'_, ibv_context>, port: u8, key: u16) -> c_int {
    // The uppermost bit distinguishes full from limited membership; either value finds the full
    // one.
    let found = port == 1 && u16::from_be(key) & 0x7fff == DEFAULT_PARTITION & 0x7fff;
    number(|| if found { Ok(0) } else { Err(EINVAL) })
}

/// Nanoseconds of the monotonic clock, with which completions are stamped.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a local value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since 1970 (wall clock).
pub(crate) fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_nanos() as u64)
}

pub(crate) extern "C" fn query_rt_values(
    _context: Ptr<'_, ibv_context>,
    values: &mut ibv_values_ex,
) -> c_int {
    const RAW_CLOCK: u32 = 1;
    status(|| {
        if values.comp_mask & !RAW_CLOCK != 0 {
            return Err(EINVAL);
        }
        // A device's clock may be reported in the device's own units, in the nanoseconds of the
        // second field, or not at all. Its units here are nanoseconds.
        let now = monotonic_ns();
        values.raw_clock.tv_sec = (now / 1_000_000_000) as i64;
        values.raw_clock.tv_nsec = (now % 1_000_000_000) as i64;
        Ok(())
    })
}
