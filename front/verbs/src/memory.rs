//! Protection domains and memory regions.

// SAFETY (all unsafe code of this file): pointers come from a C program that keeps libibverbs'
// contract: objects were made by the calls here and are destroyed once, after their last use; the
// memory it registers stays mapped until it deregisters it.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock};

use fairway::Rights;
use fairway::engine::SegmentId;
use fairway_rdma::{Carrier, ForeignMemory};
use fairway_roce::MemoryRequest;
use libc::{c_int, c_uint, c_void};

use crate::abi::*;
use crate::device::Context;
use crate::guard::{EINVAL, EOPNOTSUPP, Errno, Result, lock, object, status};
use crate::keys::Key;

/// A protection domain as programs hold it. A parent domain is one more handle of its domain.
#[repr(C)]
pub(crate) struct Domain {
    base: ibv_pd,
    /// The carrier's number for it.
    pub(crate) number: u32,
}

impl Domain {
    /// # Safety
    ///
    /// `pd` is a protection domain of ours, not freed yet.
    pub(crate) unsafe fn of<'a>(pd: *mut ibv_pd) -> &'a Domain {
        unsafe { &*pd.cast::<Domain>() }
    }

    fn boxed(context: *mut ibv_context, number: u32) -> *mut ibv_pd {
        let base = ibv_pd { context, handle: number };
        Box::into_raw(Box::new(Domain { base, number })).cast()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    object(|| {
        let number = unsafe { Context::of(context) }.device_state.number();
        Ok(Domain::boxed(context, number))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status(|| {
        drop(unsafe { Box::from_raw(pd.cast::<Domain>()) });
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    object(|| {
        let attr = unsafe { &*attr };
        // Bits 0 and 1: allocators, which we have no use for, and their context.
        if attr.pd.is_null() || attr.comp_mask & !3 != 0 {
            return Err(EINVAL);
        }
        Ok(Domain::boxed(context, unsafe { Domain::of(attr.pd) }.number))
    })
}

pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    object(|| {
        if unsafe { (*attr).comp_mask } != 0 {
            return Err(EINVAL);
        }
        // A promise of the program's to use one thread; we need no promise.
        Ok(Box::into_raw(Box::new(ibv_td { context })))
    })
}

pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    drop(unsafe { Box::from_raw(td) });
    0
}

/// A memory region as programs hold it. (Providers read an `int` type and access behind it.)
#[repr(C)]
struct Region {
    base: ibv_mr,
    kind: c_int,
    access: Field<c_uint>,
    /// Locked by `ibv_rereg_mr`, also for the fields above that it changes.
    registered: Mutex<Registered>,
}

/// Memory as the carrier knows it.
struct Registered {
    /// What work requests call its first byte.
    address: u64,
    segment: SegmentId,
    carrier: Arc<dyn Carrier>,
}

/// Flags that registration knows and grants.
const KNOWN: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_OPTIONAL_RANGE;

/// What remote peers may do, and whether memory may be seen to change in another order than theirs.
pub(crate) fn rights(access: c_uint) -> Rights {
    let right = |flag, right| if access & flag != 0 { right } else { Rights::NONE };
    right(IBV_ACCESS_REMOTE_READ, Rights::READ)
        .with(right(IBV_ACCESS_REMOTE_WRITE, Rights::WRITE))
        .with(right(IBV_ACCESS_REMOTE_ATOMIC, Rights::ATOMIC))
        .with(right(IBV_ACCESS_RELAXED_ORDERING, Rights::RELAXED))
}

fn check_access(access: c_uint) -> Result<()> {
    // On-demand paging, explicit or implicit, needs the kernel; memory windows we do not have.
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

/// A page's size.
fn page() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// True if a page can be written, or the kernel is too old to tell (before 5.14).
fn can_write(at: usize, page: usize) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    /// Makes a page present as writing would, and changes nothing in it.
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

/// Refuses memory that is not mapped, as pinning would; and if the NIC is to write it, memory whose
/// first or last page can't be written.
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

/// What is needed to register memory once more with something changed.
#[derive(Clone, Copy)]
struct Wanted {
    pd: *mut ibv_pd,
    start: *mut c_void,
    length: usize,
    address: u64,
    access: c_uint,
}

/// Registers memory; its L_Key, which is the R_Key.
unsafe fn enter(wanted: &Wanted) -> Result<(u32, Registered)> {
    let Wanted { pd, start, length, address, access } = *wanted;
    check_access(access)?;
    if length == 0 && start.is_null() {
        return Err(EINVAL);
    }
    address.checked_add(length as u64).ok_or(EINVAL)?;
    let writable = access & IBV_ACCESS_LOCAL_WRITE != 0;
    if length > 0 {
        check_mapped(start as usize, length, writable)?;
    }
    let context = unsafe { Context::of((*pd).context) };
    let carrier = context.device_state.carrier()?;
    let domain = unsafe { Domain::of(pd) }.number;
    let request = MemoryRequest { domain, address, length: length as u64, rights: rights(access) };
    let memory = unsafe { ForeignMemory::new(start.cast(), length) };
    let region = carrier.register(memory, &request)?;
    context
        .device_state
        .keys
        .insert(region.r_key, Key { segment: region.segment, address, writable });
    lock(&context.held).segments.insert(region.segment);
    let carrier = Arc::clone(carrier);
    Ok((region.r_key, Registered { address, segment: region.segment, carrier }))
}

/// Takes memory from the carrier.
unsafe fn leave(region: &Region, registered: &Registered) -> Result<()> {
    let context = unsafe { Context::of(region.base.context) };
    context.device_state.keys.remove(region.base.lkey.get());
    lock(&context.held).segments.remove(&registered.segment);
    Ok(registered.carrier.deregister(registered.segment)?)
}

unsafe fn register(wanted: &Wanted) -> Result<*mut ibv_mr> {
    let (key, registered) = unsafe { enter(wanted)? };
    let base = ibv_mr {
        context: unsafe { (*wanted.pd).context },
        pd: Field::new(wanted.pd),
        addr: Field::new(wanted.start),
        length: Field::new(wanted.length),
        handle: registered.segment.index() as u32,
        lkey: Field::new(key),
        rkey: Field::new(key),
    };
    let (access, registered) = (Field::new(wanted.access), Mutex::new(registered));
    Ok(Box::into_raw(Box::new(Region { base, kind: 0, access, registered })).cast())
}

/// Where its bytes begin for peers.
fn first_address(start: *mut c_void, access: c_uint) -> u64 {
    if access & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { start as u64 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    start: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let access = access as c_uint;
    let address = first_address(start, access);
    object(|| unsafe { register(&Wanted { pd, start, length, address, access }) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    start: *mut c_void,
    length: usize,
    address: u64,
    access: c_int,
) -> *mut ibv_mr {
    unsafe { ibv_reg_mr_iova2(pd, start, length, address, access as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    start: *mut c_void,
    length: usize,
    address: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let address = if access & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { address };
    object(|| unsafe { register(&Wanted { pd, start, length, address, access }) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status(|| {
        let region = unsafe { Box::from_raw(mr.cast::<Region>()) };
        let left = unsafe { leave(&region, &lock(&region.registered)) };
        match left {
            Ok(()) => Ok(()),
            Err(error) => {
                // The program may try again.
                let _ = Box::into_raw(region);
                Err(error)
            }
        }
    })
}

/// Changes the access or the domain of memory where it is: the keys stay.
unsafe fn change(
    region: &Region,
    registered: &Registered,
    pd: *mut ibv_pd,
    access: c_uint,
) -> Result<()> {
    check_access(access)?;
    if unsafe { (*pd).context } != region.base.context {
        return Err(EINVAL);
    }
    let writable = access & IBV_ACCESS_LOCAL_WRITE != 0;
    let was_writable = region.access.get() & IBV_ACCESS_LOCAL_WRITE != 0;
    let (start, length) = (region.base.addr.get(), region.base.length.get());
    if writable && !was_writable && length > 0 {
        check_mapped(start as usize, length, true)?;
    }
    let domain = unsafe { Domain::of(pd) }.number;
    let Registered { address, segment, ref carrier } = *registered;
    carrier.change_memory(segment, rights(access), domain)?;
    let key = Key { segment, address, writable };
    let keys = &unsafe { Context::of(region.base.context) }.device_state.keys;
    keys.replace(region.base.lkey.get(), key);
    region.base.pd.set(pd);
    region.access.set(access);
    Ok(())
}

/// Registers other memory, and gives the first up; the keys are new. `began` says whether it came
/// so far.
unsafe fn move_to(
    region: &Region,
    registered: &mut Registered,
    wanted: &Wanted,
    began: &mut bool,
) -> Result<()> {
    let (key, new) = unsafe { enter(wanted)? };
    *began = true;
    unsafe { leave(region, registered)? };
    region.base.pd.set(wanted.pd);
    region.base.addr.set(wanted.start);
    region.base.length.set(wanted.length);
    region.base.lkey.set(key);
    region.base.rkey.set(key);
    region.access.set(wanted.access);
    *registered = new;
    Ok(())
}

/// Changes a registration. The keys stay, unless it is for other memory from now on. Returns zero,
/// or one of `ibv_rereg_mr_err_code`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    start: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    const KNOWN_FLAGS: c_int =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    let region = unsafe { &*mr.cast::<Region>() };
    let translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0;
    let new_domain = flags & IBV_REREG_MR_CHANGE_PD != 0;
    if flags & !KNOWN_FLAGS != 0
        || flags == 0
        || new_domain && pd.is_null()
        || translation && (length == 0 || start.is_null())
    {
        crate::guard::set_errno(EINVAL);
        return IBV_REREG_MR_ERR_INPUT;
    }
    let new_access = flags & IBV_REREG_MR_CHANGE_ACCESS != 0;
    let mut outcome = IBV_REREG_MR_ERR_INPUT;
    let failed = status(|| {
        let registered = &mut *lock(&region.registered);
        let pd = if new_domain { pd } else { region.base.pd.get() };
        let access = if new_access { access as c_uint } else { region.access.get() };
        if !translation {
            return unsafe { change(region, registered, pd, access) };
        }
        let address = first_address(start, access);
        let wanted = Wanted { pd, start, length, address, access };
        let mut began = false;
        let moved = unsafe { move_to(region, registered, &wanted, &mut began) };
        if began {
            outcome = IBV_REREG_MR_ERR_CMD;
        }
        moved
    });
    if failed == 0 { 0 } else { outcome }
}

/// Memory of other devices we can't reach.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr() -> *mut ibv_mr {
    crate::guard::set_errno(EOPNOTSUPP);
    null_mut()
}
