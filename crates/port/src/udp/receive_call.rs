//! The port's receive calls.

use std::io;
use std::os::fd::AsFd;

use crate::udp::address::Address;
use crate::udp::control::{self, Control};
use crate::udp::port::UdpPort;
use crate::udp::receive::{Arrival, ReceiveBuffer};
use crate::udp::sys::{empty_message, receive_message};

/// Maximum number of network error reports that one receive call takes from a socket before it
/// gives up.
const ATTEMPTS: usize = 8;

impl UdpPort {
    /// Receives the next arrival on `socket`. Returns `None` if there is none.
    ///
    /// # Errors
    /// What the kernel says, except for the network's reports on packets sent, which are counted.
    pub fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> io::Result<Option<Arrival<'b>>> {
        let mut room = buffer.room();
        let mut from = Address::UNSPECIFIED;
        let mut control = Control::new();
        let mut message = empty_message();
        message.msg_iov = &mut room;
        message.msg_iovlen = 1;
        let Some(len) = self.receive_once(socket, &mut message, &mut from, &mut control)? else {
            return Ok(None);
        };
        let noted = control::read(&message);
        let from = from.reached_at(noted.local);
        let mut arrival = buffer.arrived(from, noted.ecn, len, noted.segment_size);
        arrival.stamped_ns = noted.stamped_ns;
        self.counters.packets_received += arrival.segments() as u64;
        self.counters.bytes_received += len as u64;
        Ok(Some(arrival))
    }

    /// Receives into the buffer that `message` names.
    fn receive_once(
        &mut self,
        socket: usize,
        message: &mut libc::msghdr,
        from: &mut Address,
        control: &mut Control,
    ) -> io::Result<Option<usize>> {
        for _ in 0..ATTEMPTS {
            message.msg_name = from.as_mut_ptr().cast();
            message.msg_namelen = Address::capacity();
            control.offer(message);
            self.counters.receive_calls += 1;
            // SAFETY: the caller has borrowed the buffer that the room lies in; name and control
            // buffer are borrowed here. All are given with their true lengths.
            let received = unsafe { receive_message(self.sockets[socket].as_fd(), message) };
            let error = match received {
                Ok(len) => {
                    from.filled(message.msg_namelen);
                    return Ok(Some(len));
                }
                Err(error) => error,
            };
            match error.raw_os_error().unwrap_or(0) {
                libc::EAGAIN => return Ok(None),
                libc::EINTR => {}
                libc::ECONNREFUSED
                | libc::ECONNRESET
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::ENONET
                | libc::EMSGSIZE
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::EACCES => {
                    self.counters.icmp_errors += 1;
                }
                _ => return Err(error),
            }
        }
        Ok(None)
    }
}
