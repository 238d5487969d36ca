//! Maps path numbers to pairs of sockets.
//!
//! A path is a number below 256 and, over UDP, a pair of sockets. Both sides have the number of
//! sockets of each side, so both compute the pair from the path number, and none of it is sent. The
//! client's socket changes with every path and the server's after each round of the client's: the
//! first `client × server` paths are all different.

/// The role of this end in the set-up of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that sent HELLO.
    Client,
    /// The end that sent WELCOME.
    Server,
}

/// The two ends of a path, as seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSockets {
    /// Index of the socket at this end.
    pub local: usize,
    /// Index, into the peer's ports, of the socket at the other end.
    pub remote: usize,
}

/// The sockets of `path` for an end in `role` that has `local_count` sockets and whose peer has
/// `remote_count`. A count of zero is taken as one.
pub const fn path_sockets(
    role: Role,
    path: u8,
    local_count: usize,
    remote_count: usize,
) -> PathSockets {
    let path = path as usize;
    let (local_count, remote_count) = (at_least_one(local_count), at_least_one(remote_count));
    match role {
        Role::Client => {
            let (local, round) = (path % local_count, path / local_count);
            PathSockets { local, remote: round % remote_count }
        }
        Role::Server => {
            let (remote, round) = (path % remote_count, path / remote_count);
            PathSockets { local: round % local_count, remote }
        }
    }
}

/// The number of sockets with which two ends that have as many each make a different pair of
/// sockets of every path: the least whose square is at least `paths`.
pub const fn sockets_for(paths: u32) -> usize {
    let mut sockets: usize = 1;
    while ((sockets * sockets) as u64) < paths as u64 {
        sockets += 1;
    }
    sockets
}

/// Number of different pairs of sockets among `paths` paths between ends with so many sockets.
pub const fn socket_pairs(paths: u32, sockets: (usize, usize)) -> u32 {
    let pairs = at_least_one(sockets.0) * at_least_one(sockets.1);
    if pairs as u64 <= paths as u64 { pairs as u32 } else { paths }
}

const fn at_least_one(count: usize) -> usize {
    if count == 0 { 1 } else { count }
}

#[cfg(test)]
mod tests;
