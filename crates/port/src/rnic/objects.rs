//! The objects of the library that queue pairs are made of, while a NIC is being opened.

use std::ffi::c_int;
use std::io;

use super::abi::{IBV_ACCESS_LOCAL_WRITE, ibv_comp_channel, ibv_mr};
use super::device::OpenPort;
use super::queue_pair::{Parts, QueuePair};
use crate::xdp::Mapping;

/// Objects of the library before there are queue pairs.
pub(super) struct Objects {
    port: Option<OpenPort>,
    channel: *mut ibv_comp_channel,
    parts: Parts,
}

impl Objects {
    pub(super) fn make(
        port: OpenPort,
        qkey: u32,
        (sends, receives): (u32, u32),
    ) -> io::Result<Objects> {
        let library = port.library;
        let null: *mut libc::c_void = std::ptr::null_mut();
        let parts = Parts::empty(qkey);
        let context = port.context;
        let mut made = Objects { port: Some(port), channel: null.cast(), parts };
        // What is made is released on drop if the next step fails.
        // SAFETY: the device is open, and each call gets objects that were made before.
        unsafe {
            made.parts.pd = pointer((library.alloc_pd)(context))?;
            made.channel = pointer((library.create_comp_channel)(context))?;
            never_wait((*made.channel).fd)?;
            let (sends, receives) = (sends as libc::c_int, receives as libc::c_int);
            let cq = (library.create_cq)(context, sends, null, null.cast(), 0);
            made.parts.send_cq = pointer(cq)?;
            let cq = (library.create_cq)(context, receives, null, made.channel, 0);
            made.parts.receive_cq = pointer(cq)?;
        }
        Ok(made)
    }

    /// Largest packet in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.port.as_ref().map_or(0, |port| port.port.mtu)
    }

    /// Makes queue pairs with so many places for packets to send and to receive.
    pub(super) fn pairs(
        &self,
        count: usize,
        (sends, receives): (u32, u32),
    ) -> io::Result<Vec<QueuePair>> {
        let port = self.port.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let parts = Parts { sends, receives, ..self.parts };
        let mut pairs = Vec::new();
        for _ in 0..count {
            match QueuePair::new(port, &parts, 0) {
                Ok(pair) => pairs.push(pair),
                Err(error) => {
                    pairs.iter().for_each(|pair| pair.destroy(port));
                    return Err(error);
                }
            }
        }
        Ok(pairs)
    }

    /// Registers so many bytes for these queue pairs. Returns the open port, the objects, the
    /// memory, and its registration.
    pub(super) fn with_memory(
        mut self,
        pairs: &[QueuePair],
        bytes: usize,
    ) -> io::Result<(OpenPort, Parts, *mut ibv_comp_channel, Mapping, *mut ibv_mr)> {
        let port = self.port.take().ok_or(io::ErrorKind::NotConnected)?;
        let registered = Mapping::anonymous(bytes).and_then(|memory| {
            let access = IBV_ACCESS_LOCAL_WRITE as c_int;
            let start = memory.at(0, bytes).cast();
            // SAFETY: the memory is mapped, and outlives the region.
            let region = unsafe { (port.library.reg_mr)(self.parts.pd, start, bytes, access) };
            Ok((memory, pointer(region)?))
        });
        match registered {
            Ok((memory, region)) => Ok((port, self.parts, self.channel, memory, region)),
            Err(error) => {
                pairs.iter().for_each(|pair| pair.destroy(&port));
                self.port = Some(port);
                Err(error)
            }
        }
    }

    /// Destroys the objects. No other object uses them any more.
    pub(super) fn release(port: &OpenPort, parts: &Parts, channel: *mut ibv_comp_channel) {
        let library = port.library;
        // SAFETY: as the caller says. Those that were not made are null.
        unsafe {
            for cq in [parts.send_cq, parts.receive_cq] {
                if !cq.is_null() {
                    (library.destroy_cq)(cq);
                }
            }
            if !channel.is_null() {
                (library.destroy_comp_channel)(channel);
            }
            if !parts.pd.is_null() {
                (library.dealloc_pd)(parts.pd);
            }
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(port) = &self.port {
            Objects::release(port, &self.parts, self.channel);
        }
    }
}

/// Returns what a call of the library has made.
fn pointer<T>(made: *mut T) -> io::Result<*mut T> {
    if made.is_null() { Err(io::Error::last_os_error()) } else { Ok(made) }
}

/// Makes calls on a descriptor return at once.
fn never_wait(fd: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: likewise.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
