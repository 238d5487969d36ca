//! The requested execution order of operations.

use clap::{Args, ValueEnum};
use fairway::{Order, ServiceMode, Tag};

use super::operation::Operation;
use crate::failure::Failure;

/// OrderRequest of every operation of a measurement.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Order")]
pub(crate) struct OrderOptions {
    /// The side that keeps the order: the initiator (ROI), the target (ROT) or the transport (ROL,
    /// the default); none over unreliable packets (UNO)
    #[arg(long, value_name = "ROI|ROT|ROL|UNO", ignore_case = true, hide_possible_values = true)]
    order: Option<Mode>,

    /// None (NO, the default); relaxed (RO): strict ones after it wait for it; strict (SO): it also
    /// waits for all relaxed and strict ones before it
    #[arg(long, value_name = "NO|RO|SO", ignore_case = true, hide_possible_values = true)]
    tag: Option<TagName>,

    /// Wait for all reads and atomics before
    #[arg(long)]
    fence: bool,
}

/// A service mode by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    #[value(name = "ROI")]
    Roi,
    #[value(name = "ROT")]
    Rot,
    #[value(name = "ROL")]
    Rol,
    #[value(name = "UNO")]
    Uno,
}

/// An execution tag by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TagName {
    #[value(name = "NO")]
    No,
    #[value(name = "RO")]
    Ro,
    #[value(name = "SO")]
    So,
    #[value(name = "MO")]
    Mo,
}

/// A supported combination of mode, tag and fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderRequest {
    mode: ServiceMode,
    tag: Tag,
    fence: bool,
}

impl OrderOptions {
    /// The requested order. Fails if `operation` does not support it.
    pub(crate) fn of(
        &self,
        operation: Operation,
        ping_pong: bool,
    ) -> Result<OrderRequest, Failure> {
        let request = OrderRequest {
            mode: self.order.map_or(ServiceMode::default(), Mode::mode),
            tag: self.tag.map_or(Tag::default(), TagName::tag),
            fence: self.fence,
        };
        let named = self.named();
        if operation.bypasses() && !named.is_empty() {
            return Err(Failure::usage(format!(
                "{named} is not possible for a {}: loads and stores bypass the transport and keep no \
                 order: leave it out, or measure read or write",
                operation.name()
            )));
        }
        if !request.is_unreliable() {
            return Ok(request);
        }
        if !operation.may_be_unreliable() {
            return Err(Failure::usage(format!(
                "{named} is not possible for {}: unreliable packets carry write, write-imm and send: \
                 choose one of those, or ROI, ROT or ROL",
                operation.name()
            )));
        }
        if request.tag != Tag::No || request.fence {
            return Err(Failure::usage(format!(
                "{named} is not possible: unreliable packets have no order: leave out --tag and \
                 --fence, or choose ROI, ROT or ROL"
            )));
        }
        if ping_pong {
            return Err(Failure::usage(
                "--order UNO with --ping-pong would wait for ever for what was lost: leave out \
                 --ping-pong, or choose ROI, ROT or ROL",
            ));
        }
        Ok(request)
    }

    /// The given options, as written on the command line.
    fn named(&self) -> String {
        let order = self.order.map(|mode| format!("--order {}", name_of(&mode)));
        let tag = self.tag.map(|tag| format!("--tag {}", name_of(&tag)));
        let fence = self.fence.then(|| "--fence".to_owned());
        order.into_iter().chain(tag).chain(fence).collect::<Vec<_>>().join(" ")
    }
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Mode {
    fn mode(self) -> ServiceMode {
        match self {
            Mode::Roi => ServiceMode::Roi,
            Mode::Rot => ServiceMode::Rot,
            Mode::Rol => ServiceMode::Rol,
            Mode::Uno => ServiceMode::Uno,
        }
    }
}

impl TagName {
    fn tag(self) -> Tag {
        match self {
            TagName::No => Tag::No,
            TagName::Ro => Tag::Ro,
            TagName::So => Tag::So,
            TagName::Mo => Tag::Mo,
        }
    }
}

impl OrderRequest {
    /// The order in the library's form.
    pub(crate) fn order(self) -> Order {
        let order = match self.tag {
            Tag::Mo => Order::in_memory(),
            tag => Order::with_tag(self.mode, tag),
        };
        if self.fence { order.fenced() } else { order }
    }

    /// Whether operations are single packets that may be lost.
    pub(crate) fn is_unreliable(self) -> bool {
        self.mode == ServiceMode::Uno
    }

    /// Whether a fence is requested.
    pub(crate) fn has_fence(self) -> bool {
        self.fence
    }

    /// The mode's name.
    pub(crate) fn mode_name(self) -> &'static str {
        match self.mode {
            ServiceMode::Roi => "ROI",
            ServiceMode::Rot => "ROT",
            ServiceMode::Rol => "ROL",
            ServiceMode::Uno => "UNO",
        }
    }

    /// The tag's name.
    pub(crate) fn tag_name(self) -> &'static str {
        match self.tag {
            Tag::No => "NO",
            Tag::Ro => "RO",
            Tag::So => "SO",
            Tag::Mo => "MO",
        }
    }

    /// The order as a field of a message.
    pub(crate) fn to_byte(self) -> u8 {
        self.mode as u8 | (self.tag as u8) << 2 | u8::from(self.fence) << 4
    }

    /// Decodes the field of a message.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let modes = [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol, ServiceMode::Uno];
        let tag = *[Tag::No, Tag::Ro, Tag::So, Tag::Mo].get(usize::from(byte >> 2 & 3))?;
        let mode = modes[usize::from(byte & 3)];
        (byte < 32).then_some(OrderRequest { mode, tag, fence: byte & 16 != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_survives_as_a_byte() {
        let all: Vec<OrderRequest> = (0..=u8::MAX).filter_map(OrderRequest::from_byte).collect();
        assert_eq!(all.len(), 4 * 4 * 2);
        assert!(
            all.iter().all(|request| OrderRequest::from_byte(request.to_byte()) == Some(*request))
        );
        assert!(all.contains(&OrderRequest::default()));
    }
}
