//! Typed indices of records, for modules that do not know what is in the records.

use crate::pool::Index;

/// Marker type of channel indices.
#[derive(Debug)]
pub(crate) enum ChannelRecord {}

/// Index of a channel among all of this NIC.
pub(crate) type ChannelIndex = Index<ChannelRecord>;

/// Marker type of flow indices.
#[derive(Debug)]
pub(crate) enum FlowRecord {}

/// Index of a flow.
pub(crate) type FlowIndex = Index<FlowRecord>;
