//! `ibv_cq_ex`: completions read one by one, field by field.

use libc::{c_int, c_uint};

use crate::abi::*;
use crate::cq::{self, CompletionQueue, Reading};
use crate::pointer::{Locked, Out, Ptr};

/// Returns an extended completion queue with its function pointers.
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

/// Fetches one completion into `reading`, which the queue's lock protects.
fn fetch(queue: &CompletionQueue, reading: &mut Reading) -> c_int {
    reading.current = loop {
        if queue.fetch(reading, 1) == 0 {
            crate::after_poll::polled();
            return libc::ENOENT;
        }
        if let Some(completion) = queue.take(reading, 0) {
            break completion;
        }
    };
    reading.stamps = cq::stamps(reading);
    queue.ex.status.set(reading.current.status);
    queue.ex.wr_id.set(reading.current.wr_id);
    0
}

extern "C" fn start_poll(cq: Ptr<'_, ibv_cq_ex>, attr: Option<&ibv_poll_cq_attr>) -> c_int {
    if attr.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    let queue = cq.object();
    let mut reading = queue.reading.acquire();
    let result = fetch(queue, &mut reading);
    if result != 0 {
        reading.release();
    }
    result
}

extern "C" fn next_poll(cq: Locked<'_, ibv_cq_ex>) -> c_int {
    let (queue, mut reading) = cq.open();
    fetch(queue, &mut reading)
}

extern "C" fn end_poll(cq: Locked<'_, ibv_cq_ex>) {
    cq.open().1.release();
}

fn current(cq: Locked<'_, ibv_cq_ex>) -> ibv_wc {
    cq.open().1.current
}

extern "C" fn read_opcode(cq: Locked<'_, ibv_cq_ex>) -> c_int {
    current(cq).opcode
}

extern "C" fn read_vendor_err(cq: Locked<'_, ibv_cq_ex>) -> u32 {
    current(cq).vendor_err
}

extern "C" fn read_byte_len(cq: Locked<'_, ibv_cq_ex>) -> u32 {
    current(cq).byte_len
}

extern "C" fn read_imm_data(cq: Locked<'_, ibv_cq_ex>) -> u32 {
    current(cq).imm_data
}

extern "C" fn read_qp_num(cq: Locked<'_, ibv_cq_ex>) -> u32 {
    current(cq).qp_num
}

extern "C" fn read_src_qp(cq: Locked<'_, ibv_cq_ex>) -> u32 {
    current(cq).src_qp
}

extern "C" fn read_wc_flags(cq: Locked<'_, ibv_cq_ex>) -> c_uint {
    current(cq).wc_flags
}

extern "C" fn read_slid(_: Locked<'_, ibv_cq_ex>) -> u32 {
    0
}

extern "C" fn read_sl(cq: Locked<'_, ibv_cq_ex>) -> u8 {
    current(cq).sl
}

extern "C" fn read_dlid_path_bits(_: Locked<'_, ibv_cq_ex>) -> u8 {
    0
}

extern "C" fn read_completion_ts(cq: Locked<'_, ibv_cq_ex>) -> u64 {
    cq.open().1.stamps.map_or(0, |(monotonic, _)| monotonic)
}

extern "C" fn read_cvlan(_: Locked<'_, ibv_cq_ex>) -> u16 {
    0
}

extern "C" fn read_flow_tag(_: Locked<'_, ibv_cq_ex>) -> u32 {
    0
}

extern "C" fn read_tm_info(_: Locked<'_, ibv_cq_ex>, info: Out<'_, ibv_wc_tm_info>) {
    info.write(ibv_wc_tm_info { tag: 0, private: 0 });
}

extern "C" fn read_completion_wallclock_ns(cq: Locked<'_, ibv_cq_ex>) -> u64 {
    cq.open().1.stamps.map_or(0, |(_, wall)| wall)
}
