//! Limits of what clients may use of a server, together and by address: files, bytes and the disk.
//!
//! An address, and a network, may use a share of what it already has and what is still free. So
//! each leaves some for the next, however many of them use all they may.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::refusal::Refusal;
use crate::quantity::{self, ValueError};

/// Time for which a stored file counts against its address, because the server can't see whether
/// its owner has moved it elsewhere meanwhile.
const STORED_FOR: Duration = Duration::from_secs(24 * 3600);
/// Largest number of addresses and networks whose stored bytes are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Largest number of stored files that are remembered.
const FILES_MAX: usize = 65_536;

/// Limits for files that are being received, and for stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Number of files.
    pub(super) files: u32,
    /// Total bytes of the files.
    pub(super) bytes: u64,
    /// Part of the disk that stays free.
    pub(super) keep_free: KeepFree,
    /// Largest share of one address.
    pub(super) share: Portion,
}

/// A share in two-hundredths (half per cent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion(u8);

impl Portion {
    /// Parses a share such as `75%`.
    pub(crate) fn parse(text: &str) -> Result<Portion, ValueError> {
        match text.strip_suffix('%').and_then(|number| number.parse().ok()) {
            Some(percent @ 1..=100) => Ok(Portion::percent(percent)),
            _ => Err(ValueError::Portion(text.to_owned())),
        }
    }

    fn percent(percent: u8) -> Portion {
        Portion(2 * percent)
    }

    /// The share of a network: half of what one address leaves is for others of its network.
    fn of_network(self) -> Portion {
        Portion(self.0 + (200 - self.0) / 2)
    }

    /// Whether a holder that has `theirs`, while `left` are free, may take `more` of those.
    fn allows(self, theirs: u64, left: u64, more: u64) -> bool {
        let wide = u128::from;
        more <= left
            && (wide(theirs) + wide(more)) * 200 <= (wide(theirs) + wide(left)) * u128::from(self.0)
    }
}

impl Limits {
    /// Reserves a place for a file of `size` bytes from `client`, if there is one beside the files
    /// being received.
    pub(super) fn admit(
        &self,
        taken: &Arc<Taken>,
        client: IpAddr,
        size: u64,
    ) -> Result<Place, Refusal> {
        let mut state = taken.state();
        let Share { files, bytes } = state.all;
        if files >= u64::from(self.files) {
            return Err(Refusal::Files(self.files));
        }
        let left = Share { files: u64::from(self.files) - files, bytes: self.bytes - bytes };
        if size > left.bytes {
            return Err(Refusal::Bytes { size, arriving: bytes, most: self.bytes });
        }
        for holder in holders(client) {
            let theirs = state.accounts.get(&holder).copied().unwrap_or_default().arriving;
            if let Some(refusal) = self.refusal(holder, theirs, left, size) {
                return Err(refusal);
            }
        }
        state.all.add(size);
        let now = Instant::now();
        for holder in holders(client) {
            state.account(now, holder).arriving.add(size);
        }
        Ok(Place { taken: Arc::clone(taken), client, size, share: self.share })
    }

    /// Why an address or network may not have more; `None` if it may.
    fn refusal(&self, holder: Holder, theirs: Share, left: Share, size: u64) -> Option<Refusal> {
        let portion = holder.portion(self.share);
        let name = holder.name();
        if theirs.files > 0 && !portion.allows(theirs.files, left.files, 1) {
            return Some(Refusal::FilesOfOne {
                holder: name,
                arriving: theirs.files,
                left: left.files,
            });
        }
        if !portion.allows(theirs.bytes, left.bytes, size) {
            return Some(Refusal::BytesOfOne {
                holder: name,
                size,
                arriving: theirs.bytes,
                left: left.bytes,
            });
        }
        None
    }
}

/// Unit to which limits apply: one client, or one network of clients. A client is an IPv4 address,
/// or the first 64 bits of an IPv6 address, because a host commonly has all addresses below them; a
/// network is the first 24 or 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Client(u128),
    Network(u128),
}

impl Holder {
    /// The client at an address.
    pub(super) fn client(address: IpAddr) -> Holder {
        let [client, _] = holders(address);
        client
    }

    fn portion(self, of_client: Portion) -> Portion {
        match self {
            Holder::Client(_) => of_client,
            Holder::Network(_) => of_client.of_network(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Holder::Client(_) => "address",
            Holder::Network(_) => "network",
        }
    }
}

fn holders(address: IpAddr) -> [Holder; 2] {
    let (bits, client, network) = match address.to_canonical() {
        IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), 0, 8),
        IpAddr::V6(address) => (address.to_bits(), 64, 80),
    };
    [Holder::Client(bits >> client << client), Holder::Network(bits >> network << network)]
}

/// Number of files, and their total bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    files: u64,
    bytes: u64,
}

impl Share {
    fn add(&mut self, size: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size);
    }

    fn release(&mut self, size: u64) {
        self.files -= 1;
        self.bytes -= size;
    }
}

/// What an address or network uses.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    arriving: Share,
    stored: Share,
    /// Time from which the stored files count.
    since: Option<Instant>,
}

/// A file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    pub(super) fn new(device: u64, number: u64) -> FileId {
        FileId { device, number }
    }
}

/// A file that was stored, and counts against the address that has sent it.
#[derive(Clone, Copy, Debug)]
struct Stored {
    client: IpAddr,
    size: u64,
    at: Instant,
}

impl Account {
    fn is_empty(&self) -> bool {
        self.arriving.files == 0 && self.stored.files == 0
    }

    /// Files being received and recently stored ones, together.
    fn all(&self) -> Share {
        let Account { arriving, stored, .. } = self;
        let bytes = arriving.bytes.saturating_add(stored.bytes);
        Share { files: arriving.files + stored.files, bytes }
    }
}

/// Files being received, and recently stored ones. Any thread may release a place.
#[derive(Debug, Default)]
pub(super) struct Taken(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// All files that are being received.
    all: Share,
    /// Accounts of addresses and networks that are sending a file, or have stored one recently.
    accounts: HashMap<Holder, Account>,
    /// The latest stored files, which no longer count when they are replaced.
    files: HashMap<FileId, Stored>,
}

impl Taken {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The account of an address or network, without files stored too long ago.
    fn account(&mut self, now: Instant, holder: Holder) -> &mut Account {
        if self.accounts.len() >= REMEMBERED_MAX && !self.accounts.contains_key(&holder) {
            self.forget_least();
        }
        let account = self.accounts.entry(holder).or_default();
        if account.since.is_some_and(|since| now.duration_since(since) >= STORED_FOR) {
            (account.stored, account.since) = (Share::default(), None);
        }
        account
    }

    /// Notes which file counts from now on. One that can't be noted counts even when it has been
    /// replaced.
    fn note(&mut self, file: FileId, stored: Stored) {
        if self.files.len() >= FILES_MAX {
            self.files.retain(|_, old| stored.at.duration_since(old.at) < STORED_FOR);
        }
        if self.files.len() < FILES_MAX {
            self.files.insert(file, stored);
        }
    }

    /// Stops counting a file, which has been replaced, if it still counts.
    fn release(&mut self, now: Instant, file: FileId) {
        let Some(Stored { client, size, at }) = self.files.remove(&file) else { return };
        for holder in holders(client) {
            let account = self.account(now, holder);
            // Older files have been forgotten.
            if account.since.is_some_and(|since| at >= since) {
                account.stored.release(size);
            }
            if account.is_empty() {
                self.accounts.remove(&holder);
            }
        }
    }

    /// Drops the account with the fewest stored bytes among those that are not sending.
    fn forget_least(&mut self) {
        let idle = self.accounts.iter().filter(|(_, account)| account.arriving.files == 0);
        let least = idle.min_by_key(|(_, Account { stored, .. })| (stored.bytes, stored.files));
        if let Some(holder) = least.map(|(holder, _)| *holder) {
            self.accounts.remove(&holder);
        }
    }
}

/// A place for a file, until it is stored or dropped. Released on drop.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Taken>,
    client: IpAddr,
    size: u64,
    share: Portion,
}

impl Place {
    /// Why the place's file would take too much of a disk's free files or bytes; `None` if enough
    /// is left for others.
    pub(super) fn refusal(&self, room: Room) -> Option<Refusal> {
        let mut state = self.taken.state();
        let now = Instant::now();
        for holder in holders(self.client) {
            // The account includes this file, which is to be stored in the free space, so it is
            // subtracted.
            let all = state.account(now, holder).all();
            let (files, bytes) = (all.files - 1, all.bytes - self.size);
            let portion = holder.portion(self.share);
            let fits = portion.allows(bytes, room.bytes, self.size) || self.size == 0;
            if !fits || !room.files.is_none_or(|left| portion.allows(files, left, 1)) {
                return Some(Refusal::DiskOfOne {
                    holder: holder.name(),
                    size: self.size,
                    stored: bytes,
                    files,
                    left: room.bytes,
                });
            }
        }
        None
    }

    /// Counts the file as stored from now on, and no longer the one that it has replaced.
    pub(super) fn stored(self, file: FileId, replaced: Option<FileId>) {
        let mut state = self.taken.state();
        let now = Instant::now();
        if let Some(replaced) = replaced {
            state.release(now, replaced);
        }
        state.note(file, Stored { client: self.client, size: self.size, at: now });
        for holder in holders(self.client) {
            let account = state.account(now, holder);
            account.stored.add(self.size);
            account.since.get_or_insert(now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.taken.state();
        state.all.release(self.size);
        for holder in holders(self.client) {
            if let Some(account) = state.accounts.get_mut(&holder) {
                account.arriving.release(self.size);
                if account.is_empty() {
                    state.accounts.remove(&holder);
                }
            }
        }
    }
}

/// Part of a disk that stays free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepFree {
    /// A number of bytes.
    Bytes(u64),
    /// Per cent of the file system.
    Percent(u8),
}

impl KeepFree {
    /// Parses `5%`, or a size.
    pub(crate) fn parse(text: &str) -> Result<KeepFree, ValueError> {
        let Some(number) = text.strip_suffix('%') else {
            return quantity::size(text).map(KeepFree::Bytes);
        };
        match number.parse() {
            Ok(percent @ 0..=100) => Ok(KeepFree::Percent(percent)),
            _ => Err(ValueError::Share(text.to_owned())),
        }
    }

    /// What files may still take of the file system of `directory`, if this much stays free. Fails
    /// if there is no room for a file of `size` bytes. Unlimited if the file system does not report
    /// its size.
    pub(super) fn allows(self, directory: &OwnedFd, size: u64) -> Result<Room, Refusal> {
        let Ok(space) = space(directory) else { return Ok(Room { files: None, bytes: u64::MAX }) };
        let Space { total, free, files_total, files_free } = space;
        let (kept, files_kept) = match self {
            KeepFree::Bytes(bytes) => (bytes, 0),
            KeepFree::Percent(percent) => {
                let of = |all: u64| all / 100 * u64::from(percent);
                (of(total), of(files_total))
            }
        };
        // Some file systems have no fixed number of files.
        let files = (files_total > 0).then(|| files_free.saturating_sub(files_kept));
        if files == Some(0) {
            return Err(Refusal::DiskFiles {
                free: files_free,
                total: files_total,
                kept: files_kept,
            });
        }
        let bytes = free.saturating_sub(kept);
        if bytes >= size {
            return Ok(Room { files, bytes });
        }
        Err(Refusal::DiskBytes { size, free, total, kept })
    }
}

/// Free part of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Number of files; `None` if the file system has no such limit.
    files: Option<u64>,
    /// Number of bytes.
    bytes: u64,
}

/// Bytes and files of a file system in total, and those that are free.
struct Space {
    total: u64,
    free: u64,
    files_total: u64,
    files_free: u64,
}

fn space(directory: &OwnedFd) -> io::Result<Space> {
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatvfs(directory.as_raw_fd(), space.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it in.
    let space = unsafe { space.assume_init() };
    let bytes = |blocks: libc::fsblkcnt_t| blocks.saturating_mul(space.f_frsize);
    Ok(Space {
        total: bytes(space.f_blocks),
        free: bytes(space.f_bavail),
        files_total: space.f_files,
        files_free: space.f_favail,
    })
}

#[cfg(test)]
mod tests;
