//! Identifiers, each as wide as its wire field.

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $bits:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// Width of the wire field, in bits.
            pub const BITS: u32 = $bits;
            /// The largest value.
            pub const MAX: u32 = (1 << $bits) - 1;

            /// From the low bits of `value`; higher bits are dropped.
            pub const fn new(value: u32) -> Self {
                $name(value & Self::MAX)
            }

            /// As an integer.
            pub const fn value(self) -> u32 {
                self.0
            }
        }
    };
}

identifier!(
    /// A node address (compact network address). Live it is drawn at random for every start of a
    /// context, so a restarted peer is a new peer: it is the incarnation number.
    Cna, 24
);
identifier!(
    /// A TP channel number at one node.
    Tpn, 24
);
identifier!(
    /// A Jetty (or, later, Jetty group) number at one node.
    JettyId, 20
);
identifier!(
    /// Names a registered segment at one node.
    TokenId, 20
);
identifier!(
    /// A RoCE queue pair number at one node.
    Qpn, 24
);
identifier!(
    /// A message sequence number on one direction of one TP channel (TPMSN): one per transaction.
    Msn, 24
);

impl Msn {
    /// The next message number (wrapping).
    pub const fn next(self) -> Msn {
        Msn::new(self.0.wrapping_add(1))
    }
}
