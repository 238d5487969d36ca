//! Names of records that modules keep without knowing what is in the records.

use crate::pool::Index;

/// Marks names of channels.
#[derive(Debug)]
pub(crate) enum ChannelRecord {}

/// Names a channel of this NIC: its place among all.
pub(crate) type ChannelIndex = Index<ChannelRecord>;

/// Marks names of flows.
#[derive(Debug)]
pub(crate) enum FlowRecord {}

/// Names a flow.
pub(crate) type FlowIndex = Index<FlowRecord>;
