//! A server that receives requests in a mailbox: the receiver chooses where they are stored.
//!
//! Clients put requests to an address and a key, without the addresses of the server's buffers.
//! Each put fills the next buffer (an epoch of one put), and the epoch's number identifies that
//! buffer.
//!
//! `cargo run --package fairway --example mailbox_server`

use std::time::Duration;

use fairway::{
    Context, Error, JettyOptions, Mailbox, MailboxAddress, MailboxOptions, Memory, Rights, Segment,
    Steering, Threshold,
};

const TIMEOUT: Duration = Duration::from_secs(5);
const ADDRESS: u64 = 0x10b;
const KEY: u32 = 4711;
/// Length of a buffer in bytes; [`BUFFERS`] is the number of buffers.
const BUFFER: u64 = 256;
const BUFFERS: u64 = 4;
const REQUESTS: u64 = 10;

/// Runs both sides.
pub fn main() -> Result<(), Error> {
    let server = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let address = server.local_addrs()[0];
    // The mailbox must exist before any client starts, because a put to a missing mailbox is
    // refused.
    let service = Service::open(&server)?;
    std::thread::scope(|threads| {
        let served = threads.spawn(|| service.serve());
        let answered = request(address);
        served.join().expect("the server does not panic")?;
        answered
    })
}

/// A mailbox, and the memory that contains its buffers.
struct Service {
    mailbox: Mailbox,
    shelf: Segment,
}

impl Service {
    fn open(context: &Context) -> Result<Service, Error> {
        let options = MailboxOptions::default()
            .address(ADDRESS)
            .key(KEY)
            .threshold(Threshold::Operations(1))
            .steering(Steering::Receiver);
        let mailbox = context.create_mailbox(&options)?;
        let shelf = context.register(Memory::zeroed((BUFFER * BUFFERS) as usize)?, Rights::NONE)?;
        let service = Service { mailbox, shelf };
        for number in 0..BUFFERS {
            service.post(number)?;
        }
        Ok(service)
    }

    /// Posts buffer `number` again, so that another request may fill it.
    fn post(&self, number: u64) -> Result<(), Error> {
        let buffer = self.shelf.slice(number * BUFFER..(number + 1) * BUFFER);
        self.mailbox.post(buffer, number)
    }

    fn serve(&self) -> Result<(), Error> {
        for request in 0..REQUESTS {
            let epoch = self.mailbox.wait(TIMEOUT)?;
            let mut text = vec![0; epoch.bytes as usize];
            self.shelf.read_at(epoch.id.value() * BUFFER, &mut text)?;
            let text = String::from_utf8_lossy(&text);
            assert_eq!(text, format!("request {request}"), "requests of one client come in order");
            println!("epoch {}, buffer {}: {text}", epoch.epoch, epoch.id);
            self.post(epoch.id.value())?;
        }
        Ok(())
    }
}

fn request(server: std::net::SocketAddr) -> Result<(), Error> {
    let context = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let peer = context.connect(server, TIMEOUT)?;
    let memory = context.register(Memory::zeroed(BUFFER as usize)?, Rights::NONE)?;
    let jetty = context.create_jetty(JettyOptions::default())?;
    for request in 0..REQUESTS {
        let text = format!("request {request}");
        memory.write_at(0, text.as_bytes())?;
        jetty.put(
            &peer,
            memory.slice(0..text.len() as u64),
            MailboxAddress::new(ADDRESS, KEY),
            request,
        )?;
        // The memory may be written again once the put has completed.
        let done = jetty.wait(TIMEOUT)?.result()?;
        assert_eq!(done.id, request);
    }
    Ok(())
}
