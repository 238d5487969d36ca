//! Protection domains and memory regions.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use fairway::Rights;
use fairway_device::SegmentId;
use fairway_rdma::{ForeignMemory, Provider};
use fairway_roce::MemoryRequest;
use libc::{c_int, c_uint, c_void};

use crate::abi::*;
use crate::device::Context;
use crate::guard::{EBUSY, EINVAL, EOPNOTSUPP, Errno, Result, lock, object, status};
use crate::keys::Key;
use crate::pointer::{Handle, Last, Ptr};

/// Object behind an `ibv_pd` that a program holds. A parent domain is another handle of the same
/// domain.
#[repr(C)]
pub struct Domain {
    base: ibv_pd,
    /// The provider's number of the domain.
    pub(crate) number: u32,
    /// The domain that this one is another handle of.
    _parent: Option<Member>,
    members: Arc<AtomicU32>,
}

/// Membership of an object in a domain, which is not freed before its last object.
pub(crate) struct Member(Arc<AtomicU32>);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: `Domain::give` makes every `ibv_pd`, as the first field of a boxed `Domain`.
unsafe impl Handle for ibv_pd {
    type Object = Domain;
}

impl Domain {
    fn give(context: Ptr<'_, ibv_context>, number: u32, parent: Option<Member>) -> *mut ibv_pd {
        let base = ibv_pd { context: context.raw(), handle: number };
        ibv_pd::give(Box::new(Domain { base, number, _parent: parent, members: Arc::default() }))
    }

    /// Counts an object in the domain, until the result is dropped.
    pub(crate) fn member(&self) -> Member {
        self.members.fetch_add(1, Ordering::Relaxed);
        Member(Arc::clone(&self.members))
    }

    /// The context that the domain was created with.
    pub(crate) fn context(&self) -> Ptr<'_, ibv_context> {
        // SAFETY: a program closes a context after the last use of what it has made of it.
        unsafe { Ptr::kept(self.base.context) }
    }

    /// Refuses an object of another context, which is not to be used with the domain.
    pub(crate) fn check_context(&self, other: *mut ibv_context) -> Result<()> {
        if other == self.base.context { Ok(()) } else { Err(EINVAL) }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: Ptr<'_, ibv_context>) -> *mut ibv_pd {
    object(|| Ok(Domain::give(context, context.object().device_state.number(), None)))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dealloc_pd(pd: Last<'_, ibv_pd>) -> c_int {
    status(|| {
        if pd.object().members.load(Ordering::Acquire) != 0 {
            return Err(EBUSY);
        }
        drop(pd.take());
        Ok(())
    })
}

pub(crate) extern "C" fn alloc_parent_domain(
    context: Ptr<'_, ibv_context>,
    attr: &ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    object(|| {
        // SAFETY: the domain that attributes name is not freed before the call returns.
        let parent = unsafe { Ptr::found(attr.pd) }.ok_or(EINVAL)?;
        // Bits 0 and 1 are the program's allocators, which are ignored, and their context.
        if attr.comp_mask & !3 != 0 {
            return Err(EINVAL);
        }
        let parent = parent.object();
        parent.check_context(context.raw())?;
        Ok(Domain::give(context, parent.number, Some(parent.member())))
    })
}

// SAFETY: `alloc_td` makes all of them, and boxes them as they are.
unsafe impl Handle for ibv_td {
    type Object = ibv_td;
}

pub(crate) extern "C" fn alloc_td(
    context: Ptr<'_, ibv_context>,
    attr: &ibv_td_init_attr,
) -> *mut ibv_td {
    object(|| {
        if attr.comp_mask != 0 {
            return Err(EINVAL);
        }
        // A thread domain promises that the program uses one thread; the promise is not needed
        // here.
        Ok(ibv_td::give(Box::new(ibv_td { context: context.raw() })))
    })
}

pub(crate) extern "C" fn dealloc_td(td: Last<'_, ibv_td>) -> c_int {
    drop(td.take());
    0
}

/// Object behind an `ibv_mr` that a program holds. (Providers read an `int` type and access behind
/// the `ibv_mr`.)
#[repr(C)]
pub struct Region {
    base: ibv_mr,
    kind: c_int,
    access: Field<c_uint>,
    /// The registration. `ibv_rereg_mr` holds this lock while it changes the fields above, too.
    registered: Mutex<Registered>,
}

// SAFETY: `register` makes every `ibv_mr`, as the first field of a boxed `Region`.
unsafe impl Handle for ibv_mr {
    type Object = Region;
}

impl Region {
    /// The context that the region was created with.
    fn context(&self) -> &Context {
        // SAFETY: a program closes a context after the last use of what it has made of it.
        unsafe { Ptr::kept(self.base.context) }.object()
    }
}

/// A registration at the provider.
struct Registered {
    /// Address of the first byte, as work requests give it.
    address: u64,
    segment: SegmentId,
    provider: Arc<dyn Provider>,
    member: Member,
}

/// Access flags that registration accepts.
const KNOWN: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_OPTIONAL_RANGE;

/// Rights of remote peers, and whether their operations may change memory in another order than
/// that of posting.
pub(crate) fn rights(access: c_uint) -> Rights {
    let right = |flag, right| if access & flag != 0 { right } else { Rights::NONE };
    right(IBV_ACCESS_REMOTE_READ, Rights::READ)
        .with(right(IBV_ACCESS_REMOTE_WRITE, Rights::WRITE))
        .with(right(IBV_ACCESS_REMOTE_ATOMIC, Rights::ATOMIC))
        .with(right(IBV_ACCESS_RELAXED_ORDERING, Rights::RELAXED))
}

fn check_access(access: c_uint) -> Result<()> {
    // On-demand paging, explicit or implicit, needs the kernel; memory windows are not offered.
    if access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND) != 0 {
        return Err(EOPNOTSUPP);
    }
    let changing = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    let locally_read_only = access & IBV_ACCESS_LOCAL_WRITE == 0;
    if access & !KNOWN != 0 || access & changing != 0 && locally_read_only {
        return Err(EINVAL);
    }
    Ok(())
}

/// Size of a memory page in bytes.
fn page() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// True if a page is writable, or if the kernel is too old to report it (before 5.14).
fn can_write(at: usize, page: usize) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    /// Makes a page present as a write would, without changing its bytes.
    fn populate(at: usize, page: usize) -> bool {
        const POPULATE_WRITE: c_int = 23;
        // SAFETY: no byte is changed, and what is mapped stays mapped.
        unsafe { libc::madvise(at as *mut c_void, page, POPULATE_WRITE) == 0 }
    }
    populate(at, page) || {
        let probe = 0_u8;
        let own = (&raw const probe) as usize / page * page;
        !KNOWN.get_or_init(|| populate(own, page))
    }
}

/// Refuses memory that is not mapped, as pinning would; and if the NIC is to write it, also memory
/// whose first or last page is not writable.
fn check_mapped(start: usize, length: usize, writable: bool) -> Result<()> {
    const PAGES_AT_ONCE: usize = 16_384;
    let page = page();
    let end = start.checked_add(length).ok_or(EINVAL)?;
    let (first, end) = (start / page * page, end.checked_next_multiple_of(page).ok_or(EINVAL)?);
    let mut present = [0_u8; PAGES_AT_ONCE];
    for from in (first..end).step_by(PAGES_AT_ONCE * page) {
        let bytes = (end - from).min(PAGES_AT_ONCE * page);
        // SAFETY: the kernel looks at the mapping only, and writes a byte per page to `present`.
        let unmapped =
            unsafe { libc::mincore(from as *mut c_void, bytes, present.as_mut_ptr().cast()) } != 0;
        if unmapped && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM) {
            return Err(Errno(libc::EFAULT));
        }
    }
    if writable && (!can_write(first, page) || !can_write(end - page, page)) {
        return Err(Errno(libc::EFAULT));
    }
    Ok(())
}

/// Start of the memory that a program registers, whose length it passes in another argument. The
/// program keeps the memory mapped until it is deregistered or registered anew, and expects peers,
/// and the NIC if it may write, to change the memory.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Memory(*mut c_void);

/// Parameters of a registration.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    pd: Ptr<'a, ibv_pd>,
    memory: Memory,
    length: usize,
    address: u64,
    access: c_uint,
}

/// Registers memory. Returns its L_Key, which is also its R_Key.
fn enter(wanted: &Wanted<'_>) -> Result<(u32, Registered)> {
    let Wanted { pd, memory: Memory(start), length, address, access } = *wanted;
    check_access(access)?;
    if length == 0 && start.is_null() {
        return Err(EINVAL);
    }
    address.checked_add(length as u64).ok_or(EINVAL)?;
    let writable = access & IBV_ACCESS_LOCAL_WRITE != 0;
    if length > 0 {
        check_mapped(start as usize, length, writable)?;
    }
    let Domain { number: domain, .. } = *pd.object();
    let context = pd.object().context().object();
    let provider = context.device_state.provider()?;
    let request = MemoryRequest { domain, address, length: length as u64, rights: rights(access) };
    // SAFETY: the program lends this memory until it is deregistered (`Memory`), which `leave` and
    // `ibv_close_device` do; no call has a reference to it.
    let memory = unsafe { ForeignMemory::new(start.cast(), length) };
    let region = provider.register(memory, &request)?;
    context
        .device_state
        .keys
        .insert(region.r_key, Key { segment: region.segment, address, writable });
    lock(&context.held).segments.insert(region.segment);
    let (provider, member) = (Arc::clone(provider), pd.object().member());
    Ok((region.r_key, Registered { address, segment: region.segment, provider, member }))
}

/// Deregisters memory at the provider.
fn leave(region: &Region, registered: &Registered) -> Result<()> {
    let context = region.context();
    context.device_state.keys.remove(region.base.lkey.get());
    lock(&context.held).segments.remove(&registered.segment);
    Ok(registered.provider.deregister(registered.segment)?)
}

fn register(wanted: &Wanted<'_>) -> Result<*mut ibv_mr> {
    let (key, registered) = enter(wanted)?;
    let base = ibv_mr {
        context: wanted.pd.object().context().raw(),
        pd: Field::new(wanted.pd.raw()),
        addr: Field::new(wanted.memory.0),
        length: Field::new(wanted.length),
        handle: registered.segment.index() as u32,
        lkey: Field::new(key),
        rkey: Field::new(key),
    };
    let (access, registered) = (Field::new(wanted.access), Mutex::new(registered));
    Ok(ibv_mr::give(Box::new(Region { base, kind: 0, access, registered })))
}

/// Address by which peers name the first byte.
fn first_address(memory: Memory, access: c_uint) -> u64 {
    if access & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { memory.0 as u64 }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr(
    pd: Ptr<'_, ibv_pd>,
    memory: Memory,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let access = access as c_uint;
    let address = first_address(memory, access);
    object(|| register(&Wanted { pd, memory, length, address, access }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova(
    pd: Ptr<'_, ibv_pd>,
    memory: Memory,
    length: usize,
    address: u64,
    access: c_int,
) -> *mut ibv_mr {
    ibv_reg_mr_iova2(pd, memory, length, address, access as c_uint)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova2(
    pd: Ptr<'_, ibv_pd>,
    memory: Memory,
    length: usize,
    address: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let address = if access & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { address };
    object(|| register(&Wanted { pd, memory, length, address, access }))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dereg_mr(mr: Last<'_, ibv_mr>) -> c_int {
    status(|| {
        let region = mr.object();
        // If this fails, the program may try again.
        leave(region, &lock(&region.registered))?;
        drop(mr.take());
        Ok(())
    })
}

/// Changes the access rights or the domain of a registration. The memory and the keys stay the
/// same.
fn change(
    region: &Region,
    registered: &mut Registered,
    pd: Ptr<'_, ibv_pd>,
    access: c_uint,
) -> Result<()> {
    check_access(access)?;
    let writable = access & IBV_ACCESS_LOCAL_WRITE != 0;
    let was_writable = region.access.get() & IBV_ACCESS_LOCAL_WRITE != 0;
    let (start, length) = (region.base.addr.get(), region.base.length.get());
    if writable && !was_writable && length > 0 {
        check_mapped(start as usize, length, true)?;
    }
    let domain = pd.object().number;
    let Registered { address, segment, ref provider, .. } = *registered;
    provider.change_memory(segment, rights(access), domain)?;
    let key = Key { segment, address, writable };
    region.context().device_state.keys.replace(region.base.lkey.get(), key);
    registered.member = pd.object().member();
    region.base.pd.set(pd.raw());
    region.access.set(access);
    Ok(())
}

/// Registers other memory and deregisters the previous memory; the keys are new. `began` is set
/// once the other memory is registered.
fn move_to(
    region: &Region,
    registered: &mut Registered,
    wanted: &Wanted<'_>,
    began: &mut bool,
) -> Result<()> {
    let (key, new) = enter(wanted)?;
    *began = true;
    leave(region, registered)?;
    region.base.pd.set(wanted.pd.raw());
    region.base.addr.set(wanted.memory.0);
    region.base.length.set(wanted.length);
    region.base.lkey.set(key);
    region.base.rkey.set(key);
    region.access.set(wanted.access);
    *registered = new;
    Ok(())
}

/// Changes a registration. The keys stay the same unless the memory changes. Returns zero, or one
/// of `ibv_rereg_mr_err_code`.
#[unsafe(no_mangle)]
extern "C" fn ibv_rereg_mr(
    mr: Ptr<'_, ibv_mr>,
    flags: c_int,
    pd: Option<Ptr<'_, ibv_pd>>,
    memory: Memory,
    length: usize,
    access: c_int,
) -> c_int {
    const KNOWN_FLAGS: c_int =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    let region = mr.object();
    let translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0;
    let new_domain = flags & IBV_REREG_MR_CHANGE_PD != 0;
    if flags & !KNOWN_FLAGS != 0
        || flags == 0
        || new_domain && pd.is_none()
        || translation && (length == 0 || memory.0.is_null())
    {
        crate::guard::set_errno(EINVAL);
        return IBV_REREG_MR_ERR_INPUT;
    }
    let new_access = flags & IBV_REREG_MR_CHANGE_ACCESS != 0;
    let mut outcome = IBV_REREG_MR_ERR_INPUT;
    let failed = status(|| {
        let registered = &mut *lock(&region.registered);
        // SAFETY: the domain counts the region as its member, so it has not been freed.
        let now = || unsafe { Ptr::kept(region.base.pd.get()) };
        let pd = pd.filter(|_| new_domain).unwrap_or_else(now);
        pd.object().check_context(region.base.context)?;
        let access = if new_access { access as c_uint } else { region.access.get() };
        if !translation {
            return change(region, registered, pd, access);
        }
        let address = first_address(memory, access);
        let wanted = Wanted { pd, memory, length, address, access };
        let mut began = false;
        let moved = move_to(region, registered, &wanted, &mut began);
        if began {
            outcome = IBV_REREG_MR_ERR_CMD;
        }
        moved
    });
    if failed == 0 { 0 } else { outcome }
}

/// Memory of other devices is not accessible to this library.
#[unsafe(no_mangle)]
extern "C" fn ibv_reg_dmabuf_mr() -> *mut ibv_mr {
    crate::guard::set_errno(EOPNOTSUPP);
    null_mut()
}
