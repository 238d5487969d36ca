//! `ibv_qp_ex`: work requests built call by call.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: a queue pair that is alive; between `wr_start` and `wr_complete` or `wr_abort` only the
// thread that started calls the others, so it holds the lock; lists have the lengths that are said.

use std::ffi::c_void;

use fairway::engine::wire::roce::Tail;
use fairway_roce::{RemoteAddress, ScatterList, Transport, Work};
use libc::{c_int, c_uint};

use crate::abi::*;
use crate::guard::{EINVAL, EOPNOTSUPP, Errno, Result, set_errno};
use crate::post::{self, Sends, Source};
use crate::qp::QueuePair;

/// Requests that have been begun, and the last, whose data or address is still to come.
#[derive(Default)]
pub(crate) struct Building {
    /// The first error; nothing is posted then.
    error: Option<Errno>,
    /// The last request.
    open: Option<Open>,
}

struct Open {
    id: u64,
    flags: c_uint,
    work: Work,
    local: ScatterList,
    /// A datagram whose destination has not been set yet.
    unaddressed: bool,
}

/// The queue pair with its functions.
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

unsafe fn pair<'a>(qp: *mut ibv_qp_ex) -> &'a QueuePair {
    unsafe { QueuePair::of(qp.cast()) }
}

/// Runs `body` unless something failed before; an error is kept until `wr_complete`.
unsafe fn step(qp: *mut ibv_qp_ex, body: impl FnOnce(&QueuePair, &mut Sends) -> Result<()>) {
    let pair = unsafe { pair(qp) };
    let sends = unsafe { pair.sends.held() };
    if sends.building.error.is_none() {
        sends.building.error = body(pair, sends).err();
    }
}

/// Puts the open request into the batch. What does not fit waits for `wr_complete`: all of it is
/// posted, or as much as there is room for.
fn close(pair: &QueuePair, sends: &mut Sends) -> Result<()> {
    let Some(open) = sends.building.open.take() else { return Ok(()) };
    if open.unaddressed {
        return Err(EINVAL);
    }
    if sends.batch.len() as u32 >= pair.cap.max_send_wr {
        return Err(crate::guard::ENOMEM);
    }
    sends.batch.push(post::flagged(pair, open.id, open.work, open.local, open.flags));
    Ok(())
}

/// Begins a request with what `wr_id` and `wr_flags` say now.
unsafe fn begin(qp: *mut ibv_qp_ex, work: Work) {
    let ex = &unsafe { pair(qp) }.ex;
    let (id, flags) = (ex.wr_id.get(), ex.wr_flags.get());
    unsafe {
        step(qp, |pair, sends| {
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
}

unsafe fn set_local(qp: *mut ibv_qp_ex, source: &Source<'_>) {
    unsafe {
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
}

unsafe fn refuse(qp: *mut ibv_qp_ex) {
    unsafe { step(qp, |_, _| Err(EOPNOTSUPP)) };
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    let sends = unsafe { pair(qp).sends.acquire() };
    sends.batch.clear();
    sends.building = Building::default();
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let pair = unsafe { pair(qp) };
    unsafe { step(qp, close) };
    let sends = unsafe { pair.sends.held() };
    let result = match sends.building.error.take() {
        Some(error) => Some(error),
        None => sends.hand_over(pair).1,
    };
    sends.batch.clear();
    unsafe { pair.sends.release() };
    result.map_or(0, |error| {
        set_errno(error);
        error.0
    })
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    let pair = unsafe { pair(qp) };
    let sends = unsafe { pair.sends.held() };
    sends.batch.clear();
    sends.building = Building::default();
    unsafe { pair.sends.release() };
}

fn remote(r_key: u32, address: u64) -> RemoteAddress {
    RemoteAddress { address, r_key }
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut ibv_qp_ex,
    key: u32,
    address: u64,
    compare: u64,
    swap: u64,
) {
    unsafe { begin(qp, Work::CompareSwap { remote: remote(key, address), compare, swap }) };
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, key: u32, address: u64, add: u64) {
    unsafe { begin(qp, Work::FetchAdd { remote: remote(key, address), add }) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, key: u32, address: u64) {
    unsafe { begin(qp, Work::Read { remote: remote(key, address) }) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, key: u32, address: u64) {
    unsafe { begin(qp, Work::Write { remote: remote(key, address), immediate: None }) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, key: u32, address: u64, data: u32) {
    let immediate = Some(u32::from_be(data));
    unsafe { begin(qp, Work::Write { remote: remote(key, address), immediate }) };
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    unsafe { begin(qp, Work::Send { tail: Tail::Nothing }) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, data: u32) {
    unsafe { begin(qp, Work::Send { tail: Tail::Immediate(u32::from_be(data)) }) };
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, key: u32) {
    unsafe { begin(qp, Work::Send { tail: Tail::Invalidate(key) }) };
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, number: u32, q_key: u32) {
    unsafe {
        step(qp, |pair, sends| {
            let open = sends.building.open.as_mut().filter(|open| open.unaddressed);
            let open = open.ok_or(EINVAL)?;
            let immediate = match open.work {
                Work::Send { tail: Tail::Immediate(value) } => Some(value),
                _ => None,
            };
            open.work = post::datagram(pair, ah.as_ref(), (number, q_key), immediate)?;
            open.unaddressed = false;
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    unsafe { set_local(qp, &Source::Registered(&[ibv_sge { addr, length, lkey }])) };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    unsafe { set_local(qp, &Source::Registered(list)) };
}

/// A buffer of inline data as an entry without a key.
fn unregistered(addr: *mut c_void, length: usize) -> ibv_sge {
    ibv_sge { addr: addr as u64, length: u32::try_from(length).unwrap_or(u32::MAX), lkey: 0 }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    unsafe { set_local(qp, &Source::Inline(&[unregistered(addr, length)])) };
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    count: usize,
    list: *const ibv_data_buf,
) {
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    let list: Vec<ibv_sge> =
        list.iter().map(|buffer| unregistered(buffer.addr, buffer.length)).collect();
    unsafe { set_local(qp, &Source::Inline(&list)) };
}

unsafe extern "C" fn wr_bind_mw(qp: *mut ibv_qp_ex, _: *mut c_void, _: u32, _: *const c_void) {
    unsafe { refuse(qp) };
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, _: u32) {
    unsafe { refuse(qp) };
}

unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, _: *mut c_void, _: u16, _: u16) {
    unsafe { refuse(qp) };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, _: u32) {
    unsafe { refuse(qp) };
}

unsafe extern "C" fn wr_atomic_write(qp: *mut ibv_qp_ex, _: u32, _: u64, _: *const c_void) {
    unsafe { refuse(qp) };
}

unsafe extern "C" fn wr_flush(qp: *mut ibv_qp_ex, _: u32, _: u64, _: usize, _: u8, _: u8) {
    unsafe { refuse(qp) };
}
