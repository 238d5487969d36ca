//! rsockets are not offered: programs that are linked to them start, and each call fails.

use fairway_verbs::guard::{EOPNOTSUPP, number};

macro_rules! not_offered {
    ($($name:ident)*) => {
        $(
            /// Not offered. The arguments are ignored.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> isize {
                number(|| Err(EOPNOTSUPP)) as isize
            }
        )*
    };
}

not_offered! {
    raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap riounmap
    riowrite rlisten rpoll rread rreadv rrecv rrecvfrom rrecvmsg rselect rsend rsendmsg rsendto
    rsetsockopt rshutdown rsocket rwrite rwritev
}
