//! Posting of receives to queue pairs and to shared receive queues.

use fairway_device::LocalRange;
use fairway_rdma::Provider;
use fairway_roce::{PostError, ReceiveRequest, SGE_MAX, ScatterList};
use libc::c_int;

use crate::abi::*;
use crate::device_state::DeviceState;
use crate::guard::{EINVAL, ENOMEM, Errno, Result, set_errno, uncancelled};
use crate::inline::BATCH;
use crate::keys::LastKey;
use crate::pointer::{List, Out};

/// Converts `sg_list` to ranges. Unregistered memory becomes a range without rights, so that the
/// request completes with a protection error, as with hardware.
pub(crate) fn scatter(
    (device_state, provider, last): (&DeviceState, &dyn Provider, &mut LastKey),
    list: &[ibv_sge],
    written: bool,
) -> Result<ScatterList> {
    let mut range_of = |sge: &ibv_sge| -> Result<LocalRange> {
        if let Some(range) = last.range(&device_state.keys, sge, written) {
            return Ok(range);
        }
        let segment = device_state.nowhere(provider)?;
        Ok(LocalRange { segment, offset: 0, length: sge.length })
    };
    if let [only] = list
        && only.length > 0
    {
        return Ok(range_of(only)?.into());
    }
    let mut ranges = [None; SGE_MAX];
    let mut used = 0;
    for sge in list {
        // The key of an empty entry is not checked.
        if sge.length > 0 {
            *ranges.get_mut(used).ok_or(EINVAL)? = Some(range_of(sge)?);
            used += 1;
        }
    }
    let Some(first) = ranges[0] else { return Ok(ScatterList::EMPTY) };
    let ranges = ranges.map(|range| range.unwrap_or(first));
    ScatterList::new(&ranges[..used]).ok_or(EINVAL)
}

/// Buffers for the conversion of receives.
pub(crate) struct Receives {
    max_sge: u32,
    batch: Vec<ReceiveRequest>,
    last: LastKey,
}

impl Receives {
    pub(crate) fn new(max_sge: u32) -> Receives {
        Receives { max_sge, batch: Vec::with_capacity(BATCH), last: LastKey::default() }
    }

    /// Posts a list. Returns zero; or an error number, and then `bad` is the first request that was
    /// refused.
    pub(crate) fn post(
        &mut self,
        device_state: &DeviceState,
        provider: &dyn Provider,
        mut list: List<'_, ibv_recv_wr>,
        bad: Option<Out<'_, *mut ibv_recv_wr>>,
        hand_over: impl Fn(&[ReceiveRequest]) -> (usize, Option<PostError>),
    ) -> c_int {
        while list.first().is_some() {
            let posted = list;
            self.batch.clear();
            let mut refused = None;
            while let Some(wr) = list.first()
                && self.batch.len() < BATCH
                && refused.is_none()
            {
                match self.convert(device_state, provider, wr) {
                    Ok(request) => {
                        self.batch.push(request);
                        list = list.rest();
                    }
                    Err(error) => refused = Some(error),
                }
            }
            let (taken, error) = uncancelled(|| hand_over(&self.batch));
            let error = if taken < self.batch.len() {
                Some(error.map_or(ENOMEM, Errno::from))
            } else {
                refused
            };
            if let Some(error) = error {
                if let Some(bad) = bad {
                    bad.write(posted.after(taken).raw());
                }
                set_errno(error);
                return error.0;
            }
        }
        0
    }

    fn convert(
        &mut self,
        device_state: &DeviceState,
        provider: &dyn Provider,
        wr: &ibv_recv_wr,
    ) -> Result<ReceiveRequest> {
        let count = u32::try_from(wr.num_sge).ok().filter(|count| *count <= self.max_sge);
        count.ok_or(EINVAL)?;
        // SAFETY: the program has posted the request.
        let list = unsafe { wr.entries()? };
        let context = (device_state, provider, &mut self.last);
        let local = scatter(context, list, true)?;
        Ok(ReceiveRequest { id: wr.wr_id, local })
    }
}
