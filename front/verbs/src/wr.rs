//! `ibv_qp_ex`: work requests built call by call.

use std::ffi::c_void;

use fairway_roce::{RemoteAddress, ScatterList, Transport, Work};
use fairway_wire::roce::Tail;
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::guard::{EINVAL, EOPNOTSUPP, Errno, Result, set_errno};
use crate::pointer::{Array, Locked, Ptr};
use crate::post::{self, Sends, Source};
use crate::qp::QueuePair;

/// Requests that a program builds by `ibv_wr_*` calls; data or address of the last are still
/// missing.
#[derive(Default)]
pub(crate) struct Building {
    /// The first error, after which nothing is posted.
    error: Option<Errno>,
    /// The last request, which is still incomplete.
    open: Option<Open>,
}

struct Open {
    id: u64,
    flags: c_uint,
    work: Work,
    local: ScatterList,
    /// Whether the request is a datagram without a destination yet.
    unaddressed: bool,
}

/// Returns an extended queue pair with its function pointers.
pub(crate) fn extended(base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base: base,
        comp_mask: 0,
        wr_id: Field::new(0),
        wr_flags: Field::new(0),
        wr_atomic_cmp_swp,
        wr_atomic_fetch_add,
        wr_bind_mw,
        wr_local_inv,
        wr_rdma_read,
        wr_rdma_write,
        wr_rdma_write_imm,
        wr_send,
        wr_send_imm,
        wr_send_inv,
        wr_send_tso,
        wr_set_ud_addr,
        wr_set_xrc_srqn,
        wr_set_inline_data,
        wr_set_inline_data_list,
        wr_set_sge,
        wr_set_sge_list,
        wr_start,
        wr_complete,
        wr_abort,
        wr_atomic_write,
        wr_flush,
    }
}

/// A queue pair between `wr_start` and `wr_complete`.
type Started<'a> = Locked<'a, ibv_qp_ex>;

/// Runs `body` unless an earlier step failed; `wr_complete` reports the error.
fn step(qp: Started<'_>, body: impl FnOnce(&QueuePair, &mut Sends) -> Result<()>) {
    let (pair, mut sends) = qp.open();
    step_with(pair, &mut sends, body);
}

fn step_with(
    pair: &QueuePair,
    sends: &mut Sends,
    body: impl FnOnce(&QueuePair, &mut Sends) -> Result<()>,
) {
    if sends.building.error.is_none() {
        sends.building.error = body(pair, sends).err();
    }
}

/// Puts the incomplete request into the batch. Requests beyond the batch's size are kept until
/// `wr_complete`, which posts all of them; or none, if the queue has no place for one.
fn close(pair: &QueuePair, sends: &mut Sends) -> Result<()> {
    let Some(open) = sends.building.open.take() else { return Ok(()) };
    if open.unaddressed {
        return Err(EINVAL);
    }
    sends.add(pair, post::flagged(pair, open.id, open.work, open.local, open.flags))
}

/// Begins a request with the current values of `wr_id` and `wr_flags`.
fn begin(qp: Started<'_>, work: Work) {
    step(qp, |pair, sends| {
        let (id, flags) = (pair.ex.wr_id.get(), pair.ex.wr_flags.get());
        close(pair, sends)?;
        let unaddressed = match work {
            Work::Send { tail: Tail::Invalidate(_) } => {
                if pair.transport == Transport::Ud {
                    return Err(EINVAL);
                }
                false
            }
            Work::Send { .. } => pair.transport == Transport::Ud,
            _ if pair.transport == Transport::Ud => return Err(EINVAL),
            _ => false,
        };
        let local = ScatterList::EMPTY;
        sends.building.open = Some(Open { id, flags, work, local, unaddressed });
        Ok(())
    });
}

fn set_local(qp: Started<'_>, source: &Source<'_>) {
    step(qp, |pair, sends| {
        let open = sends.building.open.as_ref().ok_or(EINVAL)?;
        let written = post::writes_locally(&open.work);
        let local = sends.local(pair, source, written)?;
        if let Some(open) = &mut sends.building.open {
            open.local = local;
        }
        Ok(())
    });
}

fn refuse(qp: Started<'_>) {
    step(qp, |_, _| Err(EOPNOTSUPP));
}

extern "C" fn wr_start(qp: Ptr<'_, ibv_qp_ex>) {
    let mut sends = qp.object().sends.acquire();
    sends.batch.clear();
    sends.building = Building::default();
}

extern "C" fn wr_complete(qp: Started<'_>) -> c_int {
    let (pair, mut sends) = qp.open();
    step_with(pair, &mut sends, close);
    let result = match sends.building.error.take() {
        Some(error) => Some(error),
        None => sends.hand_over_whole(pair).err(),
    };
    sends.batch.clear();
    sends.release();
    result.map_or(0, |error| {
        set_errno(error);
        error.0
    })
}

extern "C" fn wr_abort(qp: Started<'_>) {
    let (_, mut sends) = qp.open();
    sends.batch.clear();
    sends.building = Building::default();
    sends.release();
}

fn remote(r_key: u32, address: u64) -> RemoteAddress {
    RemoteAddress { address, r_key }
}

extern "C" fn wr_atomic_cmp_swp(qp: Started<'_>, key: u32, address: u64, compare: u64, swap: u64) {
    begin(qp, Work::CompareSwap { remote: remote(key, address), compare, swap });
}

extern "C" fn wr_atomic_fetch_add(qp: Started<'_>, key: u32, address: u64, add: u64) {
    begin(qp, Work::FetchAdd { remote: remote(key, address), add });
}

extern "C" fn wr_rdma_read(qp: Started<'_>, key: u32, address: u64) {
    begin(qp, Work::Read { remote: remote(key, address) });
}

extern "C" fn wr_rdma_write(qp: Started<'_>, key: u32, address: u64) {
    begin(qp, Work::Write { remote: remote(key, address), immediate: None });
}

extern "C" fn wr_rdma_write_imm(qp: Started<'_>, key: u32, address: u64, data: u32) {
    let immediate = Some(u32::from_be(data));
    begin(qp, Work::Write { remote: remote(key, address), immediate });
}

extern "C" fn wr_send(qp: Started<'_>) {
    begin(qp, Work::Send { tail: Tail::Nothing });
}

extern "C" fn wr_send_imm(qp: Started<'_>, data: u32) {
    begin(qp, Work::Send { tail: Tail::Immediate(u32::from_be(data)) });
}

extern "C" fn wr_send_inv(qp: Started<'_>, key: u32) {
    begin(qp, Work::Send { tail: Tail::Invalidate(key) });
}

extern "C" fn wr_set_ud_addr(
    qp: Started<'_>,
    ah: Option<Ptr<'_, ibv_ah>>,
    number: u32,
    q_key: u32,
) {
    step(qp, |pair, sends| {
        let open = sends.building.open.as_mut().filter(|open| open.unaddressed);
        let open = open.ok_or(EINVAL)?;
        let immediate = match open.work {
            Work::Send { tail: Tail::Immediate(value) } => Some(value),
            _ => None,
        };
        open.work = post::datagram(pair, ah, (number, q_key), immediate)?;
        open.unaddressed = false;
        Ok(())
    });
}

extern "C" fn wr_set_sge(qp: Started<'_>, lkey: u32, addr: u64, length: u32) {
    set_local(qp, &Source::Registered(&[ibv_sge { addr, length, lkey }]));
}

extern "C" fn wr_set_sge_list(qp: Started<'_>, count: usize, list: Array<'_, ibv_sge>) {
    // SAFETY: the program has passed this length.
    let list = unsafe { list.elements(count) };
    set_local(qp, &Source::Registered(list));
}

/// An entry without a key, for a buffer of inline data.
fn unregistered(addr: *mut c_void, length: usize) -> ibv_sge {
    ibv_sge { addr: addr as u64, length: u32::try_from(length).unwrap_or(u32::MAX), lkey: 0 }
}

extern "C" fn wr_set_inline_data(qp: Started<'_>, addr: *mut c_void, length: usize) {
    set_local(qp, &Source::Inline(&[unregistered(addr, length)]));
}

extern "C" fn wr_set_inline_data_list(
    qp: Started<'_>,
    count: usize,
    list: Array<'_, ibv_data_buf>,
) {
    // SAFETY: the program has passed this length.
    let list = unsafe { list.elements(count) };
    let list: Vec<ibv_sge> =
        list.iter().map(|buffer| unregistered(buffer.addr, buffer.length)).collect();
    set_local(qp, &Source::Inline(&list));
}

extern "C" fn wr_bind_mw(qp: Started<'_>, _: *mut c_void, _: u32, _: *const c_void) {
    refuse(qp);
}

extern "C" fn wr_local_inv(qp: Started<'_>, _: u32) {
    refuse(qp);
}

extern "C" fn wr_send_tso(qp: Started<'_>, _: *mut c_void, _: u16, _: u16) {
    refuse(qp);
}

extern "C" fn wr_set_xrc_srqn(qp: Started<'_>, _: u32) {
    refuse(qp);
}

extern "C" fn wr_atomic_write(qp: Started<'_>, _: u32, _: u64, _: *const c_void) {
    refuse(qp);
}

extern "C" fn wr_flush(qp: Started<'_>, _: u32, _: u64, _: usize, _: u8, _: u8) {
    refuse(qp);
}
