//! The port's receive calls.

use std::io;
use std::os::fd::AsFd;

use crate::udp::address::Address;
use crate::udp::control::{self, Control};
use crate::udp::port::UdpPort;
use crate::udp::receive::{Arrival, ReceiveBuffer, Scatter};
use crate::udp::sys::{empty_message, receive_message};

/// How many reports of the network's trouble are taken off a socket before giving up on this call.
const ATTEMPTS: usize = 8;

impl UdpPort {
    /// Receives what arrived next on `socket`, or `None` if nothing did. With a `plan`, payloads go
    /// straight to where it says, if what arrived is what it expects.
    ///
    /// # Errors
    /// What the kernel says, except for the network's reports on packets sent, which are counted.
    pub fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
        plan: Option<&Scatter>,
    ) -> io::Result<Option<Arrival<'b>>> {
        self.settle_rescued(buffer);
        let pieces = buffer.prepare(plan);
        let mut from = Address::UNSPECIFIED;
        let mut control = Control::new();
        let mut message = empty_message();
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len() as _;
        let Some(len) = self.receive_once(socket, &mut message, &mut from, &mut control, 0)? else {
            return Ok(None);
        };
        let noted = control::read(&message);
        let mut arrival = buffer.arrived(from, noted.ecn, len, noted.segment_size);
        arrival.stamped_ns = noted.stamped_ns;
        self.counters.packets_received += arrival.segments() as u64;
        self.counters.bytes_received += len as u64;
        self.counters.segments_scattered += arrival.count_in_place() as u64;
        self.counters.segments_rescued += arrival.take_rescued();
        Ok(Some(arrival))
    }

    /// Looks at the first bytes of what will be received next on `socket`, and who sent it, and
    /// leaves it there. `None` if nothing arrived.
    ///
    /// # Errors
    /// As [`UdpPort::receive`].
    pub fn peek(
        &mut self,
        socket: usize,
        bytes: &mut [u8],
    ) -> io::Result<Option<(usize, Address)>> {
        let mut from = Address::UNSPECIFIED;
        let mut control = Control::new();
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = empty_message();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        let flags = libc::MSG_PEEK;
        let len = self.receive_once(socket, &mut message, &mut from, &mut control, flags)?;
        Ok(len.map(|len| (len, from)))
    }

    /// Receives into the pieces that `message` names.
    fn receive_once(
        &mut self,
        socket: usize,
        message: &mut libc::msghdr,
        from: &mut Address,
        control: &mut Control,
        flags: libc::c_int,
    ) -> io::Result<Option<usize>> {
        for _ in 0..ATTEMPTS {
            message.msg_name = from.as_mut_ptr().cast();
            message.msg_namelen = Address::capacity();
            control.offer(message);
            self.counters.receive_calls += 1;
            // SAFETY: the caller keeps the pieces writable for the call (scratch areas and borrowed
            // bytes by their types, a plan's targets by the promise of `RawSliceMut::new`); name
            // and control buffer are borrowed here, with their true lengths.
            let received = unsafe { receive_message(self.sockets[socket].as_fd(), message, flags) };
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
                | libc::EMSGSIZE
                | libc::EPROTO => {
                    self.counters.icmp_errors += 1;
                }
                _ => return Err(error),
            }
        }
        Ok(None)
    }

    /// Corrects the counts by what was rescued of the arrival before.
    fn settle_rescued(&mut self, buffer: &mut ReceiveBuffer) {
        let rescued = std::mem::take(&mut buffer.rescued);
        self.counters.segments_rescued += rescued;
        self.counters.segments_scattered = self.counters.segments_scattered.saturating_sub(rescued);
    }
}
