//! Attachment of processes to each other: the names at which contexts listen, and the messages that
//! two of them exchange.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fairway_port::{Address, is_same_user, user};

use crate::addresses::{is_of_this_host, source_towards};
use crate::passing::{SocketKind, connect_abstract, listen_abstract, receive_files, send_files};

const MAGIC: u32 = 0x4653_484D;
const VERSION: u32 = 1;
/// Bytes before the first address.
const HEAD_BYTES: usize = 12;
/// Maximum number of socket addresses of a side.
pub(super) const ADDRESSES_MAX: usize = 64;
const MESSAGE_BYTES: usize = HEAD_BYTES + (ADDRESSES_MAX + 1) * Address::ENCODED_BYTES;
/// Connections that may wait to be accepted.
const QUEUE: i32 = 16;

/// Returns the name at which the owner of a UDP socket with this address listens. `user` separates
/// the users of a host, whose processes do not attach to each other.
fn name_of(address: &SocketAddr) -> String {
    let (user, port) = (user(), address.port());
    match address.ip() {
        ip if ip.is_unspecified() => format!("fairway-shm-{user}-any-{port}"),
        ip => format!("fairway-shm-{user}-{ip}-{port}"),
    }
}

/// Listens for the owner of a UDP socket with this address.
pub(super) fn listen(address: &SocketAddr) -> io::Result<OwnedFd> {
    listen_abstract(name_of(address).as_bytes(), SocketKind::Messages, QUEUE)
}

/// Connects to the owner of the UDP socket with this address. `None`: no process of this user on
/// this host listens there.
pub(super) fn connect(to: &SocketAddr) -> Option<UnixStream> {
    let connect = |address: &SocketAddr| {
        connect_abstract(name_of(address).as_bytes(), SocketKind::Messages).ok()
    };
    let any = SocketAddr::new(IpAddr::from([0; 4]), to.port());
    let stream = connect(to).or_else(|| connect(&any))?;
    is_same_user(&stream).then_some(stream)
}

/// Returns the source address of packets from this host to `to`, if `to` is an address of this
/// host.
///
/// # Errors
/// It is one, or may be one, but the process has no file descriptor left.
pub(super) fn source_within_host(to: &SocketAddr) -> io::Result<Option<IpAddr>> {
    if to.ip().is_unspecified() || !is_of_this_host(*to)? {
        return Ok(None);
    }
    source_towards(*to).map(Some).ok_or(io::ErrorKind::AddrNotAvailable.into())
}

/// The greeting of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The address of the accepting side to which the packet goes that caused the connection. The
    /// answer repeats it.
    pub(super) target: Address,
    /// Addresses of the sender's sockets, by index, as the other side sees them. `None`: it cannot
    /// reach that socket.
    pub(super) addresses: Vec<Option<Address>>,
}

impl Greeting {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        for word in [MAGIC, VERSION, self.addresses.len() as u32] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&self.target.to_bytes());
        for address in &self.addresses {
            let encoded = address.map_or([0; Address::ENCODED_BYTES], |address| address.to_bytes());
            bytes.extend_from_slice(&encoded);
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Greeting> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let word = |at: usize| head[4 * at..4 * at + 4].try_into().map(u32::from_ne_bytes).ok();
        let (addresses, []) = rest.as_chunks::<{ Address::ENCODED_BYTES }>() else { return None };
        let (target, addresses) = addresses.split_first()?;
        let sound = word(0)? == MAGIC
            && word(1)? == VERSION
            && word(2)? as usize == addresses.len()
            && addresses.len() <= ADDRESSES_MAX;
        let target = Address::from_bytes(target).filter(|_| sound)?;
        let addresses = addresses.iter().map(Address::from_bytes).collect();
        Some(Greeting { target, addresses })
    }

    /// Sends the greeting with these files.
    pub(super) fn send(&self, stream: &UnixStream, files: &[&dyn AsFd]) -> io::Result<()> {
        let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        send_files(stream, &self.encode(), &files)
    }
}

/// The result of a look at a stream.
pub(super) enum Received {
    /// Nothing has arrived.
    Nothing,
    /// A greeting, with its files.
    Greeting(Greeting, Vec<OwnedFd>),
    /// The connection has ended, or the other side has sent something else.
    End,
}

/// Looks for a greeting, without waiting.
pub(super) fn receive(stream: &UnixStream) -> Received {
    let mut room = [0; MESSAGE_BYTES];
    match receive_files(stream, &mut room) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::Nothing,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Received::Nothing,
        Err(_) | Ok((0, _)) => Received::End,
        Ok((length, files)) => match Greeting::decode(&room[..length]) {
            Some(greeting) => Received::Greeting(greeting, files),
            None => Received::End,
        },
    }
}
