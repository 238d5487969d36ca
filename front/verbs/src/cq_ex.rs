//! `ibv_cq_ex`: completions read one by one, field by field.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: a completion queue that is not destroyed; `next_poll`, `end_poll` and the readers are
// called by the thread whose `start_poll` succeeded, before its `end_poll`.

use libc::{c_int, c_uint};

use crate::abi::*;
use crate::completion;
use crate::cq::{self, CompletionQueue, Reading};
use crate::guard::uncancelled;

/// The queue with its functions.
pub(crate) fn extended(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: Field::new(0),
        wr_id: Field::new(0),
        start_poll,
        next_poll,
        end_poll,
        read_opcode,
        read_vendor_err,
        read_byte_len,
        read_imm_data,
        read_qp_num,
        read_src_qp,
        read_wc_flags,
        read_slid,
        read_sl,
        read_dlid_path_bits,
        read_completion_ts,
        read_cvlan,
        read_flow_tag,
        read_tm_info,
        read_completion_wallclock_ns,
    }
}

unsafe fn queue<'a>(cq: *mut ibv_cq_ex) -> &'a CompletionQueue {
    unsafe { CompletionQueue::of(cq.cast()) }
}

unsafe fn reading<'a>(cq: *mut ibv_cq_ex) -> &'a Reading {
    unsafe { queue(cq).reading.held() }
}

/// Fetches one completion into the lock-protected place.
unsafe fn fetch(cq: *mut ibv_cq_ex) -> c_int {
    let queue = unsafe { queue(cq) };
    let reading = unsafe { queue.reading.held() };
    let fetched = &mut reading.fetched[..1];
    if uncancelled(|| queue.carrier.poll(queue.id, fetched)) == 0 {
        uncancelled(crate::after_poll::polled);
        return libc::ENOENT;
    }
    reading.current = completion::to_c(&reading.fetched[0], |received| queue.datagram(received));
    reading.stamps = cq::stamps(reading);
    queue.ex.status.set(reading.current.status);
    queue.ex.wr_id.set(reading.current.wr_id);
    0
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    if !attr.is_null() && unsafe { (*attr).comp_mask } != 0 {
        return libc::EINVAL;
    }
    let queue = unsafe { queue(cq) };
    unsafe { queue.reading.acquire() };
    let result = unsafe { fetch(cq) };
    if result != 0 {
        unsafe { queue.reading.release() };
    }
    result
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    unsafe { fetch(cq) }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    unsafe { queue(cq).reading.release() };
}

unsafe extern "C" fn read_opcode(cq: *mut ibv_cq_ex) -> c_int {
    unsafe { reading(cq) }.current.opcode
}

unsafe extern "C" fn read_vendor_err(cq: *mut ibv_cq_ex) -> u32 {
    unsafe { reading(cq) }.current.vendor_err
}

unsafe extern "C" fn read_byte_len(cq: *mut ibv_cq_ex) -> u32 {
    unsafe { reading(cq) }.current.byte_len
}

unsafe extern "C" fn read_imm_data(cq: *mut ibv_cq_ex) -> u32 {
    unsafe { reading(cq) }.current.imm_data
}

unsafe extern "C" fn read_qp_num(cq: *mut ibv_cq_ex) -> u32 {
    unsafe { reading(cq) }.current.qp_num
}

unsafe extern "C" fn read_src_qp(cq: *mut ibv_cq_ex) -> u32 {
    unsafe { reading(cq) }.current.src_qp
}

unsafe extern "C" fn read_wc_flags(cq: *mut ibv_cq_ex) -> c_uint {
    unsafe { reading(cq) }.current.wc_flags
}

unsafe extern "C" fn read_slid(_: *mut ibv_cq_ex) -> u32 {
    0
}

unsafe extern "C" fn read_sl(cq: *mut ibv_cq_ex) -> u8 {
    unsafe { reading(cq) }.current.sl
}

unsafe extern "C" fn read_dlid_path_bits(_: *mut ibv_cq_ex) -> u8 {
    0
}

unsafe extern "C" fn read_completion_ts(cq: *mut ibv_cq_ex) -> u64 {
    unsafe { reading(cq) }.stamps.map_or(0, |(monotonic, _)| monotonic)
}

unsafe extern "C" fn read_cvlan(_: *mut ibv_cq_ex) -> u16 {
    0
}

unsafe extern "C" fn read_flow_tag(_: *mut ibv_cq_ex) -> u32 {
    0
}

unsafe extern "C" fn read_tm_info(_: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    unsafe { info.write(ibv_wc_tm_info { tag: 0, private: 0 }) };
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64 {
    unsafe { reading(cq) }.stamps.map_or(0, |(_, wall)| wall)
}
