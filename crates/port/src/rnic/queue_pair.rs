//! A queue pair of datagrams (UD) or of a connection (UC), and its places in the registered memory.

use std::io;

use super::abi::{
    IBV_QP_ACCESS_FLAGS, IBV_QP_AV, IBV_QP_DEST_QPN, IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX,
    IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QPS_INIT,
    IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UC, IBV_QPT_UD, ibv_ah_attr, ibv_cq, ibv_pd,
    ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_srq, ibv_srq_init_attr,
};
use super::device::OpenPort;

/// Packets up to this many bytes are passed to the NIC together with their request, if it takes
/// them so: it then need not read them from memory.
const INLINE_MAX: u32 = 128;
/// A send is reported when so many parts of a queue have been filled since the last report.
const REPORTS_PER_QUEUE: u32 = 4;

/// The library's objects that queue pairs are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) pd: *mut ibv_pd,
    pub(super) send_cq: *mut ibv_cq,
    pub(super) receive_cq: *mut ibv_cq,
    pub(super) qkey: u32,
    /// Places for packets to send, and for packets that arrive, of each queue pair.
    pub(super) sends: u32,
    pub(super) receives: u32,
}

impl Parts {
    /// No objects yet.
    pub(super) fn empty(qkey: u32) -> Parts {
        let (pd, cq) = (std::ptr::null_mut(), std::ptr::null_mut());
        Parts { pd, send_cq: cq, receive_cq: cq, qkey, sends: 0, receives: 0 }
    }
}

/// A queue pair. Its places are numbered from 0, apart for each direction.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub(super) qp: *mut ibv_qp,
    /// Distinguishes the completions of this queue pair from those of its predecessors.
    pub(super) generation: u16,
    /// Packets posted and reported as sent since the queue pair was made.
    posted: u32,
    reported: u32,
    sends: u32,
    pub(super) inline_max: usize,
    /// Places from which packets have been taken, and which are not posted again.
    pub(super) free: Vec<u32>,
    /// Why the queue pair is out of use.
    pub(super) failed: Option<String>,
}

impl QueuePair {
    /// Makes a queue pair that can send and receive. No place is posted.
    pub(super) fn new(port: &OpenPort, parts: &Parts, generation: u16) -> io::Result<QueuePair> {
        let pair = QueuePair::unready(port, parts, std::ptr::null_mut(), generation)?;
        let mut attributes =
            ibv_qp_attr { port_num: port.port.number, qkey: parts.qkey, ..ibv_qp_attr::default() };
        let steps = [
            (IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            (IBV_QPS_RTR, IBV_QP_STATE),
            (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
        ];
        match pair.lead(port, &mut attributes, &steps) {
            Ok(()) => Ok(pair),
            Err(error) => {
                pair.destroy(port);
                Err(error)
            }
        }
    }

    /// Makes a queue pair that cannot send or receive yet: of a connection, which receives from a
    /// shared queue, or of datagrams if that is null.
    pub(super) fn unready(
        port: &OpenPort,
        parts: &Parts,
        srq: *mut ibv_srq,
        generation: u16,
    ) -> io::Result<QueuePair> {
        let (qp, inline_max) =
            create(port, parts, srq, INLINE_MAX).or_else(|_| create(port, parts, srq, 0))?;
        Ok(QueuePair {
            qp,
            generation,
            posted: 0,
            reported: 0,
            sends: parts.sends,
            inline_max: inline_max as usize,
            free: (0..parts.receives).collect(),
            failed: None,
        })
    }

    /// Connects the queue pair with queue pair `number` at the end of a way, whatever it was
    /// connected with. What it had to send is dropped.
    pub(super) fn connect(
        &mut self,
        port: &OpenPort,
        (way, number): (ibv_ah_attr, u32),
        packet_max: usize,
    ) -> io::Result<()> {
        // Path MTUs are powers of two from 256 on, numbered from 1 on.
        let path_mtu = packet_max.checked_ilog2().unwrap_or(0).clamp(8, 12) as i32 - 7;
        let mut attributes = ibv_qp_attr {
            port_num: port.port.number,
            path_mtu,
            dest_qp_num: number,
            ah_attr: way,
            ..ibv_qp_attr::default()
        };
        let target = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let steps = [
            (IBV_QPS_RESET, IBV_QP_STATE),
            (IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            (IBV_QPS_RTR, IBV_QP_STATE | target),
            (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
        ];
        // Reports of earlier packets may still come.
        self.generation = self.generation.wrapping_add(1);
        (self.posted, self.reported) = (0, 0);
        self.lead(port, &mut attributes, &steps)
    }

    /// Creates a receive queue for queue pairs of connections.
    pub(super) fn shared_receives(
        port: &OpenPort,
        parts: &Parts,
        receives: u32,
    ) -> io::Result<*mut ibv_srq> {
        let srq_context = std::ptr::null_mut();
        let mut attributes =
            ibv_srq_init_attr { srq_context, max_wr: receives, max_sge: 1, srq_limit: 0 };
        // SAFETY: objects of the open device; the attributes outlive the call.
        let srq = unsafe { (port.library.create_srq)(parts.pd, &mut attributes) };
        if srq.is_null() { Err(io::Error::last_os_error()) } else { Ok(srq) }
    }

    /// Leads a queue pair through states, with the attributes that the masks name.
    fn lead(
        &self,
        port: &OpenPort,
        attributes: &mut ibv_qp_attr,
        steps: &[(i32, i32)],
    ) -> io::Result<()> {
        for (state, mask) in steps {
            attributes.qp_state = *state;
            // SAFETY: the library's own object; the attributes outlive the call.
            match unsafe { (port.library.modify_qp)(self.qp, attributes, *mask) } {
                0 => {}
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
        Ok(())
    }

    /// The number by which peers name the queue pair.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: the library's object, which lives as long as this value.
        unsafe { (*self.qp).qp_num }
    }

    /// Number of packets that can be posted.
    pub(super) fn room(&self) -> usize {
        (self.sends - self.posted.wrapping_sub(self.reported)) as usize
    }

    /// Number of the packet that is `ahead` packets after the last posted one, its place, and
    /// whether its end is to be reported.
    pub(super) fn next(&self, ahead: usize) -> (u32, u32, bool) {
        let number = self.posted.wrapping_add(ahead as u32);
        let every = self.sends / REPORTS_PER_QUEUE;
        // The number of places is a power of two, so numbers may wrap.
        (number, number % self.sends, number % every == every - 1)
    }

    pub(super) fn has_posted(&mut self, count: usize) {
        self.posted = self.posted.wrapping_add(count as u32);
    }

    /// Records that packet `number`, and thus all before it, have been sent.
    pub(super) fn has_sent(&mut self, number: u32) {
        let after = number.wrapping_add(1);
        if after.wrapping_sub(self.reported) <= self.posted.wrapping_sub(self.reported) {
            self.reported = after;
        }
    }

    pub(super) fn destroy(&self, port: &OpenPort) {
        // SAFETY: this value's own queue pair, which is not used any more.
        unsafe { (port.library.destroy_qp)(self.qp) };
    }
}

fn create(
    port: &OpenPort,
    parts: &Parts,
    srq: *mut ibv_srq,
    inline: u32,
) -> io::Result<(*mut ibv_qp, u32)> {
    let mut attributes = ibv_qp_init_attr {
        qp_context: std::ptr::null_mut(),
        send_cq: parts.send_cq,
        recv_cq: parts.receive_cq,
        srq,
        cap: ibv_qp_cap {
            max_send_wr: parts.sends,
            max_recv_wr: parts.receives,
            max_send_sge: 1,
            max_recv_sge: u32::from(srq.is_null()),
            max_inline_data: inline,
        },
        qp_type: if srq.is_null() { IBV_QPT_UD } else { IBV_QPT_UC },
        sq_sig_all: 0,
    };
    // SAFETY: objects of the open device; the attributes outlive the call.
    let qp = unsafe { (port.library.create_qp)(parts.pd, &mut attributes) };
    if qp.is_null() {
        return Err(io::Error::last_os_error());
    }
    Ok((qp, attributes.cap.max_inline_data.min(inline)))
}
