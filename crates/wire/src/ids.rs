//! Identifiers, each as wide as its wire field.

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $bits:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// Width of the wire field, in bits.
            pub const BITS: u32 = $bits;
            /// Largest value of the identifier.
            pub const MAX: u32 = (1 << $bits) - 1;

            /// Creates the identifier from the low bits of `value`; higher bits are dropped.
            pub const fn new(value: u32) -> Self {
                $name(value & Self::MAX)
            }

            /// The identifier as an integer.
            pub const fn value(self) -> u32 {
                self.0
            }
        }
    };
}

identifier!(
    /// A node address (compact network address). The live runtime draws it at random at every start
    /// of a context, so that a restarted peer has a new address: it serves as the incarnation
    /// number.
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
    /// The number of a registered segment at one node.
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
