//! The code points of IP packets (DSCP, RFC 2474), by the class of what they carry.

use std::fmt;
use std::str::FromStr;

use fairway_wire::Priority;

/// Class selector 6, network control: the code point of control packets.
const CONTROL: u8 = 48;
/// Expedited forwarding: the code point of the highest class of data.
const EXPEDITED: u8 = 46;
/// Number of code points.
const COUNT: u8 = 64;

/// The code point of control packets, or none.
///
/// Data of class 0, the default, is sent as best effort (0). A policy may name other classes of
/// data: 1 to 5 have the class selectors of these numbers (8 to 40), and 6 has expedited forwarding
/// (46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp {
    control: Option<u8>,
}

impl Dscp {
    /// All packets are sent as best effort.
    pub const OFF: Dscp = Dscp { control: None };

    /// Control packets have the code point `number`; `None` if it is above 63.
    pub const fn of_control(number: u8) -> Option<Dscp> {
        if number < COUNT { Some(Dscp { control: Some(number) }) } else { None }
    }

    /// The code point of packets of a class.
    #[inline]
    pub(crate) fn of(self, priority: Priority) -> u8 {
        match (self.control, priority) {
            (None, _) => 0,
            (Some(control), Priority::CONTROL) => control,
            (Some(_), Priority::DATA_MAX) => EXPEDITED,
            (Some(_), data) => data.number() << 3,
        }
    }
}

impl Default for Dscp {
    fn default() -> Self {
        Dscp { control: Some(CONTROL) }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.control {
            None => f.pad("off"),
            Some(number) => write!(f, "{number}"),
        }
    }
}

/// Error for a text that is neither a code point nor `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDscp {
    text: String,
}

impl fmt::Display for UnknownDscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no code point: use off, or 0 to 63", self.text)
    }
}

impl std::error::Error for UnknownDscp {}

impl FromStr for Dscp {
    type Err = UnknownDscp;

    fn from_str(text: &str) -> Result<Dscp, UnknownDscp> {
        if text == "off" {
            return Ok(Dscp::OFF);
        }
        let number = text.parse().ok().and_then(Dscp::of_control);
        number.ok_or_else(|| UnknownDscp { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_code_points_and_texts_come_back() {
        let all = |dscp: Dscp| [0, 1, 5, 6, 7].map(|class| dscp.of(Priority::new(class)));
        assert_eq!(all(Dscp::default()), [0, 8, 40, 46, 48]);
        assert_eq!(all("26".parse().unwrap()), [0, 8, 40, 46, 26]);
        assert_eq!(all("off".parse().unwrap()), [0; 5]);
        for text in ["off", "0", "63"] {
            assert_eq!(text.parse::<Dscp>().unwrap().to_string(), text);
        }
        for text in ["64", "-1", "cs6", ""] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
    }
}
