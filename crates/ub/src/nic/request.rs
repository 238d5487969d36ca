//! Checks of a request that need no state of the NIC.

use crate::api::{OrderRequest, PostError, Work, WorkRequest};
use fairway_wire::{BYPASS_BYTES, ServiceMode, Tag};

/// Checks that a request is valid in itself.
pub(super) fn check(request: &WorkRequest, mtu: u32) -> Result<(), PostError> {
    let order = &request.order;
    if order.mode == ServiceMode::Uno {
        let carried = matches!(
            request.work,
            Work::Write { .. }
                | Work::WriteImmediate { .. }
                | Work::Send { .. }
                | Work::SendImmediate { .. }
        );
        let plain = OrderRequest { mode: ServiceMode::Uno, ..OrderRequest::default() };
        if !carried || *order != plain || request.local.length > mtu {
            return Err(PostError::Unreliable);
        }
    }
    if order.tag == Tag::Mo {
        let carried = match request.work {
            Work::Write { .. }
            | Work::WriteImmediate { .. }
            | Work::Send { .. }
            | Work::SendImmediate { .. } => order.mode == ServiceMode::Rol,
            Work::Read { .. } | Work::Atomic { .. } => order.mode == ServiceMode::Rot,
            Work::Put { .. } | Work::Get { .. } | Work::Load { .. } | Work::Store { .. } => false,
        };
        if !carried {
            return Err(PostError::MemoryOrder);
        }
    }
    match request.work {
        Work::Atomic { width, .. } if !matches!(width, 4 | 8) => Err(PostError::Width),
        Work::Load { .. } | Work::Store { .. } => {
            if !(1..=BYPASS_BYTES).contains(&request.local.length) {
                return Err(PostError::Width);
            }
            let plain = *order == OrderRequest::default();
            if plain { Ok(()) } else { Err(PostError::Unreliable) }
        }
        _ => Ok(()),
    }
}
