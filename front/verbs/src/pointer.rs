//! Pointers between C programs and this library, as types that state what they are trusted for.
//!
//! Each type has the representation of a C pointer. Its documentation states the rule of libibverbs
//! and librdmacm that a program obeys when it passes such a pointer. Values of these types come
//! from programs, and from those functions of this library that are marked `unsafe` and repeat the
//! rule. All other code relies on the rule without further `unsafe`.
//!
//! Attribute structs are plain references in signatures, `&T` where a call reads and `&mut T` where
//! it also writes, because no other call uses them at the same time. In an attribute struct with a
//! mask, a call reads only the fields that the mask names.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

use crate::guard::{ENOMEM, Held, Holding, Result};

/// A struct of the header that is part of an object of ours.
///
/// # Safety
///
/// `Object` is `#[repr(C)]` and has a field of this type [`FRONT`](Handle::FRONT) bytes behind its
/// start. Programs get pointers to no other values of this type than such fields, of objects
/// that were allocated by `Box`.
pub unsafe trait Handle: Sized {
    /// The object that the struct is part of.
    type Object;
    /// Bytes from the start of the object to the struct.
    const FRONT: usize = 0;

    /// Passes an object to the program, which owns it from now on.
    fn give(object: Box<Self::Object>) -> *mut Self {
        Box::into_raw(object).wrapping_byte_add(Self::FRONT).cast()
    }
}

/// A handle that a program passes to a call: libibverbs or librdmacm has made it, and it is not
/// destroyed before the call returns. Other calls may use the object at the same time, and the
/// program may change those of its fields that are [`Field`](crate::abi::Field)s.
#[repr(transparent)]
pub struct Ptr<'a, T>(NonNull<T>, PhantomData<&'a T>);

impl<T> Clone for Ptr<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<'_, T> {}

impl<'a, T: Handle> Ptr<'a, T> {
    /// Accepts a pointer that was found in a struct instead of passed. `None` if it is null.
    ///
    /// # Safety
    ///
    /// The handle, if there is one, is not destroyed within `'a`.
    pub unsafe fn found(handle: *mut T) -> Option<Ptr<'a, T>> {
        NonNull::new(handle).map(|handle| Ptr(handle, PhantomData))
    }

    /// Accepts a pointer that an object of this library stores.
    ///
    /// # Safety
    ///
    /// It is not null, and the handle is not destroyed within `'a`.
    pub unsafe fn kept(handle: *mut T) -> Ptr<'a, T> {
        // SAFETY: as the caller says.
        Ptr(unsafe { NonNull::new_unchecked(handle) }, PhantomData)
    }

    /// The address that the program holds.
    pub fn raw(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The C struct, as the program sees it.
    pub fn handle(self) -> &'a T {
        // SAFETY: it is not destroyed within `'a`, and its fields that change are atomic.
        unsafe { self.0.as_ref() }
    }

    /// The object that contains the C struct.
    #[inline]
    pub fn object(self) -> &'a T::Object {
        // SAFETY: the handle is not destroyed within `'a`, and is part of an object at this place
        // (`Handle`). Fields of objects that change are atomic or behind locks.
        unsafe { self.0.byte_sub(T::FRONT).cast::<T::Object>().as_ref() }
    }
}

/// A handle that a program passes to the call that destroys it. No other call uses the handle at
/// the same time, and if the call succeeds, none will. (A call that acknowledges an event may not
/// have returned yet, but uses nothing of the object any more.)
#[repr(transparent)]
pub struct Last<'a, T>(Ptr<'a, T>);

impl<'a, T: Handle> Last<'a, T> {
    /// Accepts a pointer that was found in a struct instead of passed. `None` if it is null.
    ///
    /// # Safety
    ///
    /// This is the last use of the handle, if there is one.
    pub unsafe fn found(handle: *mut T) -> Option<Last<'a, T>> {
        // SAFETY: as the caller says.
        unsafe { Ptr::found(handle) }.map(Last)
    }

    /// The address that the program holds.
    pub fn raw(&self) -> *mut T {
        self.0.raw()
    }

    /// The same handle, for calls before the last use.
    pub fn as_ptr(&self) -> Ptr<'_, T> {
        self.0
    }

    /// The object that contains the C struct.
    pub fn object(&self) -> &T::Object {
        self.0.object()
    }

    /// Takes over the object from the program.
    pub fn take(self) -> Box<T::Object> {
        let object = self.raw().wrapping_byte_sub(T::FRONT).cast::<T::Object>();
        // SAFETY: the object was allocated by `Box` (`Handle`), and this is the last use of it.
        unsafe { Box::from_raw(object) }
    }
}

/// An object with a lock that one call takes and a later one releases.
pub trait Lockable: Handle {
    /// The value behind the lock.
    type Value;

    /// The lock of an object.
    fn lock(object: &Self::Object) -> &Held<Self::Value>;
}

/// A handle whose lock this thread holds: a call has taken it (`ibv_start_poll`, `ibv_wr_start`)
/// and the call that releases it is this one or comes later. In all other respects it is a [`Ptr`].
#[repr(transparent)]
pub struct Locked<'a, T>(Ptr<'a, T>);

impl<'a, T: Lockable> Locked<'a, T> {
    /// Returns the object, and the value behind its lock.
    #[inline]
    pub fn open(self) -> (&'a T::Object, Holding<'a, T::Value>) {
        let object = self.0.object();
        // SAFETY: this thread holds the lock, and this is the one value of the call, which `open`
        // consumes. So nothing else refers to what is behind the lock.
        (object, unsafe { T::lock(object).resume() })
    }
}

/// Room for one value, which the call writes. It need be neither initialised nor aligned.
#[repr(transparent)]
pub struct Out<'a, T>(NonNull<T>, PhantomData<&'a mut T>);

impl<T> Clone for Out<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<'_, T> {}

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    fn from(room: &'a mut T) -> Self {
        Out(NonNull::from(room), PhantomData)
    }
}

impl<'a, T> Out<'a, T> {
    /// Start of the memory for a struct whose size may be that of an older or newer header.
    pub fn at(room: &'a mut [MaybeUninit<u8>]) -> Out<'a, T> {
        Out(NonNull::from(room).cast(), PhantomData)
    }

    /// Writes the value.
    pub fn write(self, value: T) {
        // SAFETY: the program has room for the value there.
        unsafe { self.0.write_unaligned(value) };
    }

    /// Writes as much of `value` as the program has room for, and zeroes behind it.
    ///
    /// # Safety
    ///
    /// The program has room for `size` bytes, whatever the size of the type.
    pub unsafe fn write_prefix(self, value: &T, size: usize)
    where
        T: Copy,
    {
        let known = size.min(size_of::<T>());
        let room = self.0.as_ptr().cast::<u8>();
        // SAFETY: as the caller says; no more bytes are read than the value has.
        unsafe {
            std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), room, known);
            room.add(known).write_bytes(0, size - known);
        }
    }
}

/// An array, whose length the program passes in another argument. It may be null if its length is
/// zero.
#[repr(transparent)]
pub struct Array<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T> Clone for Array<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<'_, T> {}

#[cfg(test)]
impl<'a, T> From<&'a mut [T]> for Array<'a, T> {
    fn from(room: &'a mut [T]) -> Self {
        Array(room.as_mut_ptr(), PhantomData)
    }
}

impl<'a, T> Array<'a, T> {
    /// An array that was found in a struct instead of passed; the same rules apply.
    pub fn found(array: *const T) -> Array<'a, T> {
        Array(array.cast_mut(), PhantomData)
    }

    /// The elements that the program has filled in.
    ///
    /// # Safety
    ///
    /// The program has passed this length.
    pub unsafe fn elements(self, length: usize) -> &'a [T] {
        match length {
            0 => &[],
            // SAFETY: the array has as many elements as the program says.
            _ => unsafe { std::slice::from_raw_parts(self.0, length) },
        }
    }

    /// Like [`elements`](Array::elements), for bytes that a program may have forgotten to pass:
    /// `None` if the array is null and the length is not zero.
    ///
    /// # Safety
    ///
    /// The program has passed this length.
    pub unsafe fn checked(self, length: usize) -> Option<&'a [T]> {
        if length > 0 && self.0.is_null() {
            return None;
        }
        // SAFETY: as the caller says.
        Some(unsafe { self.elements(length) })
    }

    /// Memory that the call fills.
    ///
    /// # Safety
    ///
    /// The program has passed this length.
    #[inline]
    pub unsafe fn room(self, length: usize) -> &'a mut [MaybeUninit<T>] {
        match length {
            0 => &mut [],
            // SAFETY: the array has as many elements as the program says, initialised or not.
            _ => unsafe { std::slice::from_raw_parts_mut(self.0.cast(), length) },
        }
    }
}

/// A work request that points to the next one.
pub trait Chained {
    /// The next request, or a null pointer.
    fn next(&self) -> *mut Self;
}

/// Work requests that are posted together: each points to the next, and the last has a null
/// pointer. The program changes none of them before the call returns.
#[repr(transparent)]
pub struct List<'a, T>(*mut T, PhantomData<&'a T>);

impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<'a, T: Chained> List<'a, T> {
    /// Accepts a pointer that no program has passed.
    ///
    /// # Safety
    ///
    /// The rules of the type hold.
    pub unsafe fn found(list: *mut T) -> List<'a, T> {
        List(list, PhantomData)
    }

    /// The address that the program holds.
    pub fn raw(self) -> *mut T {
        self.0
    }

    /// The first request; `None` if the list is empty.
    #[inline]
    pub fn first(self) -> Option<&'a T> {
        // SAFETY: it is null, or the program's request, which stays as it is within `'a`. What the
        // program may have left uninitialised of it is `MaybeUninit`, or a union.
        unsafe { self.0.as_ref() }
    }

    /// The list without its first request.
    #[inline]
    pub fn rest(self) -> List<'a, T> {
        List(self.first().map_or(null_mut(), T::next), PhantomData)
    }

    /// The list without its first `count` requests.
    pub fn after(self, count: usize) -> List<'a, T> {
        (0..count).fold(self, |list, _| list.rest())
    }
}

/// Text that ends with a zero byte.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text<'a>(NonNull<c_char>, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// Address of the first character.
    pub fn raw(self) -> *const c_char {
        self.0.as_ptr()
    }

    /// The text, without its terminating zero byte.
    pub fn as_c_str(self) -> &'a CStr {
        // SAFETY: the text ends with a zero byte, and the program does not change it meanwhile.
        unsafe { CStr::from_ptr(self.0.as_ptr()) }
    }
}

/// Allocates an array of pointers that ends with a null pointer, which C's `free` releases.
pub fn null_ended<T>(items: impl ExactSizeIterator<Item = *mut T>) -> Result<*mut *mut T> {
    let length = items.len();
    // SAFETY: no pointers.
    let array = unsafe { libc::calloc(length + 1, size_of::<*mut T>()) }.cast::<*mut T>();
    if array.is_null() {
        return Err(ENOMEM);
    }
    // SAFETY: as many elements were allocated, and all zeroes is a null pointer.
    let room = unsafe { std::slice::from_raw_parts_mut(array, length) };
    room.iter_mut().zip(items).for_each(|(to, item)| *to = item);
    Ok(array)
}

#[cfg(test)]
mod tests;
